// A row of a float32 matrix by a matrix, added to a row of sums.
//
//   sums[column] = fma(a[k], b[k][column], sums[column])        for k = 0, 1, ..., one after the other
//
// float32 throughout, each step fused. The order of k is part of the result: no sum is split.
//
// Contract: a has k elements, b k rows of n elements b_row_stride apart, sums n; reads and writes nothing else; sums
// overlaps no operand; no alignment beyond the element's own.
//
// To add an instruction set: <isa>.cpp beside this file defines dmlcpu::<isa>::float_product, a declaration goes to the
// end of this file, one cell to kernels/dispatch.cpp and one word to cpp/CMakeLists.txt.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct FloatProductRow {
  const float* a;
  const float* b;
  std::size_t b_row_stride;
  std::size_t k;
  std::size_t n;
  float* sums;
};

using FloatProductFunction = void (*)(const FloatProductRow& row) noexcept;

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
