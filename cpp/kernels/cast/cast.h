// Conversion of runs of elements to another type (CAST). Conversions of integers to FLOAT32 are those of
// dequantize/dequantize.h by a scale of 1 and a zero point of 0.
//
//   to INT32    output[i] = input[i]                                      of 8-bit integers
//               output[i] = input[i] truncated toward zero, saturated     of FLOAT32; 0 of NaN
//   to FLOAT32  output[i] = input[i]                                      of FLOAT16
//   to FLOAT16  output[i] = input[i] rounded half to even                 of FLOAT32; infinite from 65520 on
//
// A NaN between FLOAT16 and FLOAT32 keeps its sign and the upper bits of its payload and becomes quiet.
//
// Contract: count elements are read and written, nothing else; input and output do not overlap; no alignment beyond the
// element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

using CastFunction = void (*)(const void* input, std::size_t count, void* output) noexcept;

struct CastKernels {
  CastFunction uint8_to_int32;
  CastFunction int8_to_int32;
  CastFunction float32_to_int32;
  CastFunction float16_to_float32;
  CastFunction float32_to_float16;
};

namespace scalar {
extern const CastKernels cast;
}
namespace avx2 {
extern const CastKernels cast;
}
namespace avx512_vnni {
extern const CastKernels cast;
}

}  // namespace dmlcpu
