// Conversion of runs of elements to INT32 (CAST). Conversions to FLOAT32 are those of dequantize/dequantize.h by a
// scale of 1 and a zero point of 0.
//
//   output[i] = input[i]                                      of 8-bit integers
//   output[i] = input[i] truncated toward zero, saturated     of FLOAT32; 0 of NaN
//
// Contract: count elements are read and written, nothing else; input and output do not overlap; no alignment beyond the
// element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

using CastFunction = void (*)(const void* input, std::size_t count, std::int32_t* output) noexcept;

struct CastKernels {
  CastFunction uint8;
  CastFunction int8;
  CastFunction float32;
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
