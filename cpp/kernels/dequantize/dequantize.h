// Dequantization of rows of integers.
//
//   output[i] = (f32(input[i]) - zero_point) * scale
//
// float32 throughout, each operation rounded on its own (never fused). 32-bit integers are converted to float32, half
// to even, before the subtraction; the zero point arrives as the float32 of its integer. A FLOAT16 output is that
// float32 result rounded to nearest even.
//
// A run is one row of count elements, or several rows at constant distances. scale and zero_point hold a value for each
// row (per_element false), or one for each of the count elements, the same in every row (true).
//
// Contract: the elements of the rows are read and written, nothing else; input and output do not overlap; no alignment
// beyond the element's own. Strides count elements and are not used for one row; input rows may coincide.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct DequantizeRun {
  const void* input;
  void* output;
  std::size_t count;
  const float* scale;
  const float* zero_point;
  bool per_element;
  std::size_t rows = 1;
  std::size_t input_row_stride = 0;
  std::size_t output_row_stride = 0;
};

using DequantizeFunction = void (*)(const DequantizeRun& run) noexcept;

struct DequantizeToFloat {
  DequantizeFunction uint8;
  DequantizeFunction int8;
  DequantizeFunction uint16;
  DequantizeFunction int16;
  DequantizeFunction uint32;
  DequantizeFunction int32;
};

struct DequantizeKernels {
  DequantizeToFloat to_float32;
  DequantizeToFloat to_float16;
};

namespace scalar {
extern const DequantizeKernels dequantize;
}
namespace avx2 {
extern const DequantizeKernels dequantize;
}
namespace avx512_vnni {
extern const DequantizeKernels dequantize;
}

}  // namespace dmlcpu
