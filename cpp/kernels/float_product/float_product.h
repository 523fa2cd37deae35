// A float32 matrix by another, added to a matrix of sums, or to zeros where a product begins.
//
//   sums[row][column] = fma(a[row][k], b[k][column], sums[row][column])        for k = 0, 1, ..., one after the other
//
// float32 throughout, each step fused. The order of k is part of the result: no sum is split.
//
// Contract: a has m rows of k elements, b k rows of n, sums m of n, rows as far apart as their strides say; reads and
// writes nothing else; sums overlaps no operand; no alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct FloatProductBlock {
  const float* a;
  std::size_t a_row_stride;  // elements, as the other strides
  const float* b;
  std::size_t b_row_stride;
  std::size_t m;
  std::size_t k;
  std::size_t n;
  float* sums;
  std::size_t sums_row_stride;
  bool begins;  // sums are 0 before, and not read
};

using FloatProductFunction = void (*)(const FloatProductBlock& block) noexcept;

struct FloatProductKernels {
  FloatProductFunction accumulate;
};

namespace scalar {
extern const FloatProductKernels float_product;
}
namespace avx2 {
extern const FloatProductKernels float_product;
}
namespace avx512_vnni {
extern const FloatProductKernels float_product;
}

}  // namespace dmlcpu
