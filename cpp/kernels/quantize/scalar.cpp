// The normative arithmetic of quantize.h in plain C++.
#include <cstring>

#include "kernels/quantize/quantize.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/half.inl.h"

enum class Rescale { divide, multiply };

inline float to_float(float value) noexcept { return value; }
inline float to_float(Half value) noexcept { return widen(value); }
inline float to_float(std::int32_t value) noexcept { return static_cast<float>(value); }

template <class Input, Rescale rescale>
void quantize_run(const QuantizeRun& operands) noexcept {
  const QuantizeRun run = operands;  // a copy: bytes of output could alias the original, which forbids vectorization
  for (std::size_t row = 0; row < run.rows; ++row) {
    const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
    std::uint8_t* output = run.output + row * run.output_row_stride;
    for (std::size_t i = 0; i < run.count; ++i) {
      const std::size_t parameter = run.per_element ? i : row;
      const float value = to_float(input[i]), scale = run.scale[parameter];
      const float scaled = rescale == Rescale::divide ? value / scale : value * scale;
      output[i] = to_code(scaled, run.zero_point[parameter], run.flip);
    }
  }
}

}  // namespace

constinit const QuantizeKernels scalar::quantize = {.divide_float32 = quantize_run<float, Rescale::divide>,
                                                    .divide_float16 = quantize_run<Half, Rescale::divide>,
                                                    .divide_int32 = quantize_run<std::int32_t, Rescale::divide>,
                                                    .multiply_float32 = quantize_run<float, Rescale::multiply>,
                                                    .multiply_float16 = quantize_run<Half, Rescale::multiply>};

}  // namespace dmlcpu
