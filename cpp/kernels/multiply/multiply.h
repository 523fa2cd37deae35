// The quantized product of two runs of 8-bit elements (QUANTIZED_MULTIPLY).
//
//   output[i] = sat(rne(((a - a_zero_point) * a_scale) * ((b - b_zero_point) * b_scale) / output_scale)
//                   + output_zero_point)
//
// float32: each of the three products is rounded, the quotient is the correctly rounded one. rne rounds half to even;
// sat clamps to the output type and sends NaN to its lowest value.
//
// Every code passes through one exclusive or into the offset domain 0..255 (code minus the type's lowest value), so
// that UINT8 and INT8 in any mix share a kernel: a flip is 0x00 for UINT8 and 0x80 for INT8, zero points are given in
// the offset domain as integers of 0..255 held as floats. Differences are unchanged by the common offset.
//
// For most parameters there are integers that make the same codes of all 65536 pairs, in half as many instructions:
//
//   t         = (a - a_zero_point) * (b - b_zero_point) + offset         0 <= t < 2^23
//   output[i] = sat(fma(2^23 + t, multiplier, addend) - 1.5 * 2^23)
//
// as in kernels/add/add.h, where the second line is explained; what is said there of its numbers holds here.
//
// Contract: count elements are read and written, nothing else; output may be exactly a or exactly b, and overlaps
// neither otherwise; no alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct MultiplyOperand {
  float scale;
  float zero_point;
  std::uint8_t flip;
};

struct IntegerProduct {
  std::int32_t offset;
  float multiplier, addend;
};

struct MultiplyRun {
  const std::uint8_t* a;
  const std::uint8_t* b;
  std::uint8_t* output;
  std::size_t count;
  MultiplyOperand a_parameters;
  MultiplyOperand b_parameters;
  MultiplyOperand output_parameters;
  IntegerProduct integers = {};  // of run_integers, which does not use scales
};

using MultiplyFunction = void (*)(const MultiplyRun& run) noexcept;

struct MultiplyKernels {
  MultiplyFunction run;
  MultiplyFunction run_integers;
};

namespace scalar {
extern const MultiplyKernels multiply;
}
namespace avx2 {
extern const MultiplyKernels multiply;
}
namespace avx512_vnni {
extern const MultiplyKernels multiply;
}

}  // namespace dmlcpu
