// A float32 matrix by one of codes, dequantized on the way: weights of 4 or 8 bits that have a scale and a zero point
// for each block of k.
//
//   value(k, column)  = (f32(code[k][column]) - f32(zero_point[k / block][column])) * scale[k / block][column]
//   sums[row][column] = fma(a[row][k], value(k, column), sums[row][column])    for k = 0, 1, ..., one after the other
//
// float32 throughout, each step rounded; differences are exact. So the result is what float_product/float_product.h
// makes of the dequantized matrix, bit for bit, and `dequantize` makes that matrix, for products of many rows.
//
// Codes are unsigned. They stand in panels of 64 columns, consecutive k of one column in a 32-bit word: 4 codes of 8
// bits, or 8 of 4 bits, of which the low halves of the bytes are the first four, as products of integers
// (block_product/block_product.h) want them. A block begins with a word of its own.
//
//   words         8 bits, k 0-3:    [c0: k0 k1 k2 k3] [c1: k0 k1 k2 k3] ... [c63: k0 k1 k2 k3]
//                         k 4-7:    ...
//                 4 bits, k 0-7:    [c0: k0|k4 k1|k5 k2|k6 k3|k7] [c1: ...] ... [c63: ...]
//                         k 8-15:   ...
//   scale         block 0: [c0 .. c63]   block 1: ...       zero_point: the same, a byte each
//
// Contract: k begins with a block, or lies within one; columns beyond n of a panel are readable; of a m rows of k
// elements, of sums m rows of n are read and written, of values k rows of 64 columns are written, nothing else. Nothing
// overlaps; no alignment beyond the element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kCodedPanelColumns = 64;

// The lowest bit of a code in its word. Static: no kernel file shares a function with another.
static constexpr std::size_t code_shift(std::size_t bits, std::size_t code) { return code % 4 * 8 + code / 4 * bits; }

// A part of a panel.
struct CodedPanel {
  const std::uint32_t* words;
  const float* scale;
  const std::uint8_t* zero_point;
  std::size_t block;  // terms: a multiple of those of a word, if k goes beyond the first block
  std::size_t k;
};

struct DequantizedProductBlock {
  const float* a;
  std::size_t a_row_stride;  // elements, as the other stride
  CodedPanel b;
  std::size_t m;
  std::size_t n;  // at most kCodedPanelColumns
  float* sums;
  std::size_t sums_row_stride;
  bool begins;  // sums are 0 before, and not read
};

// For one number of bits of a code.
struct DequantizedProductFunctions {
  void (*accumulate)(const DequantizedProductBlock& block) noexcept;
  void (*dequantize)(const CodedPanel& panel, float* values) noexcept;
};

struct DequantizedProductKernels {
  DequantizedProductFunctions of_4_bits;
  DequantizedProductFunctions of_8_bits;
};

namespace scalar {
extern const DequantizedProductKernels dequantized_product;
}
namespace avx2 {
extern const DequantizedProductKernels dequantized_product;
}
namespace avx512_vnni {
extern const DequantizedProductKernels dequantized_product;
}

}  // namespace dmlcpu
