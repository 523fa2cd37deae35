// A product of float32 rows that are quantized block by block and a matrix of codes of 4 or 8 bits with scales of
// blocks: integers within a block of k, floats from block to block.
//
//   quantize, for each block of a row:
//     scale = max |a| / 127        inverse = 127 / max |a|, or 0 where max |a| < 2^-120
//     code  = rne(a * inverse)     scale is NaN, and codes are 0, where an element is not finite
//   as onnxruntime quantizes rows for MatMulNBits, but for the bound
//
//   multiply, for one block after the other, from 0 on:
//     dot   = sum over k of a_code * b_code  -  b_zero_point * sum over k of a_code
//     sum   = fma(f32(dot), a_scale * b_scale, sum)
//
// float32 throughout, each step rounded; rne rounds half to even. Sums of integers are exact: a code of a is of
// -127..127 and one of b of 0..255, so that those of a block of kMostBlockTerms stay below 2^24, and the sum of a's
// codes below 2^15.
//
// b is a coded panel, as kernels/dequantized_product/dequantized_product.h has it, of whole blocks. a's codes follow
// each other in a row, filled up with zeros to whole blocks, so that b's codes there do not matter.
//
// Contract: blocks are of a multiple of 16 terms, at most kMostBlockTerms; reads blocks of rows and panels whole,
// writes n sums of each row, and codes, scale and negative_sum of all blocks of a row, nothing else; nothing overlaps;
// no alignment beyond the element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kMostBlockTerms = 256;

// Of quantized rows, rows of codes, or of one scale and sum a block, follow each other.
struct BlockRow {
  const float* a;  // k elements
  std::size_t k;
  std::size_t block;  // terms
  std::int8_t* codes;
  float* scale;
  std::int32_t* negative_sum;  // of a block's codes, times -1, in the lower 16 bits; the higher ones are 0
};

struct BlockProduct {
  const std::int8_t* a;
  const float* a_scale;
  const std::int32_t* a_negative_sum;
  const std::uint32_t* words;
  const float* scale;
  const std::uint8_t* zero_point;
  std::size_t m;
  std::size_t n;  // at most kCodedPanelColumns
  std::size_t blocks;
  std::size_t block;  // terms
  float* sums;
  std::size_t sums_row_stride;  // elements
};

struct BlockProductKernels {
  void (*quantize)(const BlockRow& row) noexcept;
  void (*multiply_4_bits)(const BlockProduct& product) noexcept;
  void (*multiply_8_bits)(const BlockProduct& product) noexcept;
};

namespace scalar {
extern const BlockProductKernels block_product;
}
namespace avx2 {
extern const BlockProductKernels block_product;
}
namespace avx512_vnni {
extern const BlockProductKernels block_product;
}

}  // namespace dmlcpu
