// A float32 matrix by another, added to a matrix of sums, or to a bias or zeros where a product begins.
//
//   sums[row][column] = fma(a[row][k], b[k][column], sums[row][column])        for k = 0, 1, ..., one after the other
//
// float32 throughout, each step fused. The order of k is part of the result: no sum is split.
//
// A row of a may lie in several runs of as many terms, as a window does in the rows of an image; rows may overlap then:
//
//   a: | row 0, run 0 ............ | row 0, run 1 ............ |         b: runs * k rows
//      | <- k -> |                 ^ a_run_stride
//          | row 1, run 0           (a_row_stride after row 0)
//
// Contract: a has m rows of `runs` times k elements, b as many rows of n, sums m of n, as far apart as their strides
// say; reads and writes nothing else; sums overlaps no operand; no alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct FloatProductBlock {
  const float* a;
  std::size_t a_row_stride;  // elements, as the other strides
  std::size_t runs = 1;      // of a row of a
  std::size_t a_run_stride = 0;
  const float* b;
  std::size_t b_row_stride;
  std::size_t m;
  std::size_t k;  // of a run
  std::size_t n;
  float* sums;
  std::size_t sums_row_stride;
  bool begins;                  // sums are not read: they are the bias before, or 0 where it is null
  const float* bias = nullptr;  // of n columns
  // Of b's panels, whose rows are b_row_stride apart: each has panel_columns columns, the last one may have fewer, of
  // which none is read beyond n. 0 where b is one panel, of any number of columns.
  std::size_t b_panel_stride = 0;
  bool b_is_near = false;  // in a level-1 cache, having just been written
};

using FloatProductFunction = void (*)(const FloatProductBlock& block) noexcept;

struct FloatProductKernels {
  FloatProductFunction accumulate;
  // As many columns as tiles read of a row of b at once: rows of no more are next to each other in a level-1 cache,
  // where pieces of longer ones share a few of its places. Divides 64, and is a multiple of 16.
  std::size_t panel_columns;
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
