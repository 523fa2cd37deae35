// Between 4-bit elements, two in a byte, and bytes that hold one each; and from blocks of them to floats.
//
//   unpack   output[i] = nibble(input, i) ^ flip
//   pack     nibble(output, i) = min(input[i], 15) ^ flip
//
//   dequantize   output[row * columns + column] =
//                    (f32(nibble(input, row * columns + column) ^ flip) - zero_point[row]) * scale[row]
//
//   nibble(p, i) is the low half of byte p[i / 2] for even i, the high half for odd i
//
// Bytes are in the offset domain 0..15 (an element less the type's lowest value), so that UINT4 and INT4 share the
// kernels that compute on bytes: flip is 0 for UINT4 and 8 for INT4. What is packed may be any byte; those beyond 15
// saturate, which makes 8-bit codes of quantize/quantize.h, with a zero point of 0..15, those of 4 bits.
//
// dequantize computes as dequantize/dequantize.h does, in float32, each operation rounded on its own; a FLOAT16 output
// is that result rounded to nearest even. Zero points are in the offset domain. It is for blocks of weights, mostly of
// 32 or 128 elements, too short for a call each: columns is a multiple of 32.
//
// Contract: (count + 1) / 2 packed bytes and count others are read and written, nothing else; with an odd count the
// high half of the last packed byte is not looked at, or stays as it is. Input and output do not overlap; no alignment
// is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

using NibblesFunction = void (*)(const std::uint8_t* input, std::size_t count, std::uint8_t flip,
                                 std::uint8_t* output) noexcept;

inline constexpr std::size_t kNibbleColumns = 32;

struct NibbleRows {
  const std::uint8_t* input;
  void* output;
  std::size_t rows;
  std::size_t columns;  // a multiple of kNibbleColumns
  const float* scale;
  const float* zero_point;
  std::uint8_t flip;
};

using NibbleRowsFunction = void (*)(const NibbleRows& rows) noexcept;

struct NibblesKernels {
  NibblesFunction unpack;
  NibblesFunction pack;
  NibbleRowsFunction dequantize_float32;
  NibbleRowsFunction dequantize_float16;
};

namespace scalar {
extern const NibblesKernels nibbles;
}
namespace avx2 {
extern const NibblesKernels nibbles;
}
namespace avx512_vnni {
extern const NibblesKernels nibbles;
}

}  // namespace dmlcpu
