// Softmax of one row: of floats (SOFTMAX, and its logarithm LOG_SOFTMAX), or of 8-bit codes (QUANTIZED_SOFTMAX); or of
// many short rows that lie beside each other, as the columns of a matrix.
//
//   floats      m = max of x;          e[i] = exponential(x[i] - m), or 0 below -87;   y[i] = e[i] / s
//   logarithms  the same m;            e[i] = exponential(x[i] - m);   y[i] = (x[i] - m) - logarithm(s)
//   s           e[i] added to partial sum i % 16 in ascending order of i, from 0; the 16 partial sums folded in halves:
//               p[j] + p[j + 8] for j < 8, of these p[j] + p[j + 4] for j < 4, p[j] + p[j + 2] for j < 2, p[0] + p[1]
//
//   codes       m = max of the codes;  e[i] = exponentials[m - code[i]]
//               y[i] = sat(rne((e[i] / s) / output_scale) + output_zero_point)
//   s           the exact sum of e[i], rounded once
//
// float32, each operation rounded once; exponential and logarithm are sequences of operations in lanes/functions.inl.h.
// The order of the sum of floats suits vectors of 16, 8 or one lane. NaN is passed over by the maximum, and makes the
// whole row NaN. exponentials has 256 entries, by the difference of two codes: multiples of 2^-31 from 0 to 1, of which
// the first is 1. So sums of codes are sums of integers, in any order, and the input's zero point cancels out. Codes
// and zero points are in the offset domain of add/add.h; rne rounds half to even, sat clamps to the output type and
// sends NaN to its lowest value. The flip of the input may also invert codes, so that the smallest is the largest.
//
// Contract: count >= 1 elements are read and written, nothing else; of a row of floats output may be exactly input, and
// overlaps nothing otherwise, and so of columns, whose steps are then equal; no alignment beyond the element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct FloatSoftmaxRow {
  const float* input;
  float* output;
  std::size_t count;
};

// Short rows: element i of row j is input[i * input_step + j].
struct FloatSoftmaxColumns {
  const float* input;
  float* output;
  std::size_t count;  // of elements in a row, up to kMostSoftmaxColumnElements
  std::size_t rows;
  std::int64_t input_step, output_step;
};
constexpr std::size_t kMostSoftmaxColumnElements = 256;  // so many places are on a kernel's stack
constexpr float kExponentialUnit = 0x1p-31F;             // of the exponentials of codes

// The same of codes.
struct CodeSoftmaxColumns {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::size_t count, rows;
  std::int64_t input_step, output_step;
  const float* exponentials;
  std::uint8_t input_flip;
  float output_scale;
  float output_zero_point;
  std::uint8_t output_flip;
};

struct CodeSoftmaxRow {
  const std::uint8_t* input;
  std::size_t count;
  const float* exponentials;
  std::uint8_t input_flip;
  float* powers;  // e[i]; null where they are not wanted
};

// m, in the offset domain, and s.
struct CodeSoftmaxSum {
  std::uint8_t maximum;
  float sum;
};

struct CodeShares {
  const float* powers;
  std::size_t count;
  float sum;
  float output_scale;
  float output_zero_point;
  std::uint8_t output_flip;
  std::uint8_t* output;
};

struct SoftmaxKernels {
  void (*floats)(const FloatSoftmaxRow& row) noexcept;
  void (*logarithms)(const FloatSoftmaxRow& row) noexcept;
  void (*columns)(const FloatSoftmaxColumns& columns) noexcept;  // of floats
  void (*logarithm_columns)(const FloatSoftmaxColumns& columns) noexcept;
  CodeSoftmaxSum (*code_sum)(const CodeSoftmaxRow& row) noexcept;
  void (*shares)(const CodeShares& run) noexcept;  // y of any e that are no more than s, which is 1 at least
  void (*code_columns)(const CodeSoftmaxColumns& columns) noexcept;
};

namespace scalar {
extern const SoftmaxKernels softmax;
}
namespace avx2 {
extern const SoftmaxKernels softmax;
}
namespace avx512_vnni {
extern const SoftmaxKernels softmax;
}

}  // namespace dmlcpu
