// The normative arithmetic of requantize.h in plain C++. Sums are taken in uint32, which wraps.
#include "kernels/requantize/requantize.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

void requantize_rows(const RequantizeBlock& operands) noexcept {
  const RequantizeBlock block = operands;  // a copy: bytes of output could alias the original
  for (std::size_t row = 0; row < block.rows; ++row) {
    const std::int32_t* accumulators = block.accumulators + row * block.accumulator_row_stride;
    std::uint8_t* output = block.output + row * block.output_row_stride;
    for (std::size_t column = 0; column < block.columns; ++column) {
      std::uint32_t sum =
          static_cast<std::uint32_t>(accumulators[column]) + static_cast<std::uint32_t>(block.offset[column]);
      if (block.filter_zero_point != nullptr) {
        sum -= static_cast<std::uint32_t>(block.filter_zero_point[column]) *
               static_cast<std::uint32_t>(block.activation_sum[row]);
      }
      const float scaled = static_cast<float>(static_cast<std::int32_t>(sum)) * block.multiplier[column];
      output[column] = to_code(scaled, block.output_zero_point, block.flip);
    }
  }
}

}  // namespace

constinit const RequantizeKernels scalar::requantize = {.run = requantize_rows};

}  // namespace dmlcpu
