// The quantized sum of two runs of 8-bit elements (ELEMENT_WISE_QUANTIZED_LINEAR_ADD).
//
//   output[i] = sat(rne(fma(a - a_zero_point, a_scale, (b - b_zero_point) * b_scale) / output_scale)
//                   + output_zero_point)
//
// float32: the product of b is rounded, the product of a is fused into the sum, the quotient is the correctly rounded
// one. rne rounds half to even; sat clamps to the output type and sends NaN to its lowest value.
//
// Every code passes through one exclusive or into the offset domain 0..255 (code minus the type's lowest value), so
// that UINT8 and INT8 in any mix share a kernel: a flip is 0x00 for UINT8 and 0x80 for INT8, zero points are given in
// the offset domain as integers of 0..255 held as floats. Differences are unchanged by the common offset.
//
// For most parameters there are integers that make the same codes of all 65536 pairs, in far fewer instructions:
//
//   t         = a * a_factor + b * b_factor + offset                     0 <= t < 2^23
//   output[i] = sat(fma(2^23 + t, multiplier, addend) - 1.5 * 2^23)
//
// a and b in the offset domain. The float 2^23 + t has the bits of 2^23 and t more, so that no integer is converted.
// The addend is a whole number, which takes the zero point of the output in and those of the inputs out. What fma
// returns is at most 2^15 - 128 from 1.5 * 2^23, where float32 holds the integers and nothing else: it is rounded half
// to even, and the low word of its bits is the code before saturation, as a signed number, also if it is 128 less. The
// multiplier is at least 2^-15. Whoever calls run_integers knows that all of this holds and that the codes are the same
// (operators/element_wise/integer_sum.h).
//
// Contract: count elements are read and written, nothing else; output may be exactly a or exactly b, and overlaps
// neither otherwise; no alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct AddOperand {
  float scale;
  float zero_point;
  std::uint8_t flip;
};

struct IntegerSum {
  std::int16_t a_factor, b_factor;
  std::int32_t offset;
  float multiplier, addend;
};

struct AddRun {
  const std::uint8_t* a;
  const std::uint8_t* b;
  std::uint8_t* output;
  std::size_t count;
  AddOperand a_parameters;
  AddOperand b_parameters;
  AddOperand output_parameters;
  IntegerSum integers = {};  // of run_integers, which does not use scales
};

// Both factors in the halves of a lane, as instructions multiply pairs of words. Static: what a linker could merge
// might be code of an instruction set that the CPU lacks.
static inline std::int32_t factors_of_words(const IntegerSum& integers) noexcept {
  const auto a_u32 = static_cast<std::uint32_t>(static_cast<std::uint16_t>(integers.a_factor));
  const auto b_u32 = static_cast<std::uint32_t>(static_cast<std::uint16_t>(integers.b_factor));
  return static_cast<std::int32_t>(a_u32 | b_u32 << 16);
}

using AddFunction = void (*)(const AddRun& run) noexcept;

struct AddKernels {
  AddFunction run;
  AddFunction run_integers;
};

namespace scalar {
extern const AddKernels add;
}
namespace avx2 {
extern const AddKernels add;
}
namespace avx512_vnni {
extern const AddKernels add;
}

}  // namespace dmlcpu
