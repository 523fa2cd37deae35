// The normative arithmetic of dequantize.h in plain C++.
#include <cstdint>
#include <cstring>

#include "kernels/dequantize/dequantize.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

inline void store(float* output, float value) noexcept { *output = value; }
inline void store(Half* output, float value) noexcept { *output = narrow(value); }

template <class Output, class Input>
void dequantize_run(const DequantizeRun& run) noexcept {
  for (std::size_t row = 0; row < run.rows; ++row) {
    const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
    Output* output = static_cast<Output*>(run.output) + row * run.output_row_stride;
    for (std::size_t i = 0; i < run.count; ++i) {
      const std::size_t parameter = run.per_element ? i : row;
      const float difference = static_cast<float>(input[i]) - run.zero_point[parameter];
      store(output + i, difference * run.scale[parameter]);
    }
  }
}

template <class Output>
constexpr DequantizeToFloat kDequantizeTo = {.uint8 = dequantize_run<Output, std::uint8_t>,
                                             .int8 = dequantize_run<Output, std::int8_t>,
                                             .uint16 = dequantize_run<Output, std::uint16_t>,
                                             .int16 = dequantize_run<Output, std::int16_t>,
                                             .uint32 = dequantize_run<Output, std::uint32_t>,
                                             .int32 = dequantize_run<Output, std::int32_t>};

}  // namespace

constinit const DequantizeKernels scalar::dequantize = {.to_float32 = kDequantizeTo<float>,
                                                        .to_float16 = kDequantizeTo<Half>};

}  // namespace dmlcpu
