// From int32 accumulators to 8-bit codes, the last step of a quantized convolution or matrix product.
//
//   sum                 = accumulators[row][column] + offset[column] - filter_zero_point[column] * activation_sum[row]
//   output[row][column] = sat(rne(f32(sum) * multiplier[column]) + output_zero_point)
//
// sum wraps modulo 2^32; its conversion to float32 rounds to even above 2^24. rne rounds half to even; sat clamps to
// the output type and sends NaN (0 * infinity) to its lowest value.
//
// offset carries the bias, the input zero point's share (-input_zero_point * sum of the channel's filter) and the
// product of both zero points. filter_zero_point may be null: then the filter's zero points are all 0 and
// activation_sum is not read.
//
// Output codes are produced in the offset domain 0..255 (code minus the type's lowest value) and leave through one
// exclusive or: flip is 0x00 for UINT8 and 0x80 for INT8; output_zero_point is an integer of 0..255 in that domain,
// held as a float. Clamping before rounding gives the same code as after it (see quantize/quantize.h).
//
// A row is a pixel, a column a channel: {N, H, W, C} memory.
//
// Contract: reads rows x columns accumulators and the parameters, writes rows x columns codes, nothing else; rows are
// accumulator_row_stride elements and output_row_stride bytes apart; operands do not overlap; no alignment is assumed.
//
// To add an instruction set: <isa>.cpp beside this file defines dmlcpu::<isa>::requantize, a declaration goes to the
// end of this file, one cell to kernels/dispatch.cpp and one word to cpp/CMakeLists.txt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct RequantizeBlock {
  const std::int32_t* accumulators;
  std::size_t accumulator_row_stride;
  std::uint8_t* output;
  std::size_t output_row_stride;
  std::size_t rows;
  std::size_t columns;
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;
  const std::int32_t* activation_sum;
  float output_zero_point;
  std::uint8_t flip;
};

using RequantizeFunction = void (*)(const RequantizeBlock& block) noexcept;

struct RequantizeKernels {
  RequantizeFunction run;
};

namespace scalar {
extern const RequantizeKernels requantize;
}
namespace avx2 {
extern const RequantizeKernels requantize;
}
namespace avx512_vnni {
extern const RequantizeKernels requantize;
}

}  // namespace dmlcpu
