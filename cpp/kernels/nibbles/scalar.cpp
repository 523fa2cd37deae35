// nibbles.h in plain C++.
#include <cstring>

#include "kernels/nibbles/nibbles.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/nibbles/pairs.inl.h"

inline void store(float value, float* output) noexcept { *output = value; }
inline void store(float value, Half* output) noexcept { *output = narrow(value); }

template <class Output>
void dequantize(const NibbleRows& operands) noexcept {
  const NibbleRows rows = operands;  // a copy: the output could alias the original, which forbids vectorization
  const std::uint8_t* input = rows.input;
  Output* output = static_cast<Output*>(rows.output);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const float scale = rows.scale[row], zero_point = rows.zero_point[row];
    for (std::size_t column = 0; column < rows.columns; column += 2, ++input, output += 2) {
      store((static_cast<float>((*input & 15) ^ rows.flip) - zero_point) * scale, output);
      store((static_cast<float>((*input >> 4) ^ rows.flip) - zero_point) * scale, output + 1);
    }
  }
}

}  // namespace

constinit const NibblesKernels scalar::nibbles = {.unpack = unpack_pairs,
                                                  .pack = pack_pairs,
                                                  .dequantize_float32 = dequantize<float>,
                                                  .dequantize_float16 = dequantize<Half>};

}  // namespace dmlcpu
