// Quantization of rows of elements to 8 bits.
//
//   divide    output[i] = sat(rne(input[i] / scale) + zero_point)     ELEMENT_WISE_QUANTIZE_LINEAR, QUANTIZE_BY_RANGE
//   multiply  output[i] = sat(rne(input[i] * scale) + zero_point)     DYNAMIC_QUANTIZE_LINEAR, scale = the reciprocal
//
// float32 throughout: FLOAT16 and INT32 input are converted first. The quotient is the correctly rounded one. rne
// rounds half to even; sat clamps to the output type and sends NaN to its lowest value. The zero point is added after
// rounding.
//
// Output codes are produced in the offset domain 0..255 (code minus the type's lowest value) and leave through one
// exclusive or, so that UINT8 and INT8 share a kernel: flip is 0x00 for UINT8 and 0x80 for INT8, and zero_point is
// given in the offset domain too, an integer of 0..255 held as a float.
//
// Clamping before rounding gives the same code as after it: rne is monotone and maps the integer bounds
// 0 - zero_point and 255 - zero_point to themselves.
//
// A run is one row of count elements, or several rows at constant distances. scale and zero_point hold a value for each
// row (per_element false), or one for each of the count elements, the same in every row (true):
//
//   per_element false            per_element true
//   x x x x x x x   s z          x x x x x x x
//   x x x x x x x   s z          x x x x x x x
//                                s s s s s s s
//                                z z z z z z z
//
// Contract: the elements of the rows are read and written, nothing else; input and output do not overlap; no alignment
// beyond the element's own. Strides count elements and are not used for one row; input rows may coincide.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct QuantizeRun {
  const void* input;
  std::uint8_t* output;
  std::size_t count;
  const float* scale;
  const float* zero_point;
  bool per_element;
  std::uint8_t flip;
  std::size_t rows = 1;
  std::size_t input_row_stride = 0;
  std::size_t output_row_stride = 0;
};

using QuantizeFunction = void (*)(const QuantizeRun& run) noexcept;

struct QuantizeKernels {
  QuantizeFunction divide_float32;
  QuantizeFunction divide_float16;
  QuantizeFunction divide_int32;
  QuantizeFunction multiply_float32;
  QuantizeFunction multiply_float16;
};

namespace scalar {
extern const QuantizeKernels quantize;
}
namespace avx2 {
extern const QuantizeKernels quantize;
}
namespace avx512_vnni {
extern const QuantizeKernels quantize;
}

}  // namespace dmlcpu
