// Moves 8-bit codes into the operand layouts of gemm/gemm.h, flipping the top bit on the way where a code changes its
// signedness (flip is 0x00 or 0x80), and sums operands for the correction of a zero point.
//
//   copy         output[i] = input[i] ^ flip
//   interleave   group i: output[i / run * run_bytes + i % run * 4 + r] = rows[r][i] ^ flip
//                four rows of k become one row of k groups, in runs of columns (panels) or all together
//   sum_rows     sums[row] = sum over k of a[row][k]                   a: the row operand of gemm.h, unsigned codes
//   sum_columns  sums[column] = sum over k of b[k][column]             b: one panel of columns, unsigned codes
//
// Sums are exact: 255 * k fits int32 for every k below 2^23, and wrap beyond, as all accumulation here does.
//
// A run of interleave is a multiple of 16 columns; kOneRun for all together.
//
// Contract: reads and writes what the formulas name, nothing else; operands do not overlap; no alignment is assumed.
// k is a multiple of 4 in sum_columns.
//
// To add an instruction set: <isa>.cpp beside this file defines dmlcpu::<isa>::pack, a declaration goes to the end of
// this file, one cell to kernels/dispatch.cpp and one word to cpp/CMakeLists.txt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kOneRun = ~std::size_t{0};

struct InterleaveRun {
  const std::uint8_t* rows[4];
  std::size_t count;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t run;
  std::size_t run_bytes;
};

struct PackKernels {
  void (*copy)(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept;
  void (*interleave)(const InterleaveRun& run) noexcept;
  void (*sum_rows)(const std::uint8_t* a, std::size_t a_row_stride, std::size_t m, std::size_t k,
                   std::int32_t* sums) noexcept;
  void (*sum_columns)(const std::uint8_t* panel, std::size_t nr, std::size_t k, std::int32_t* sums) noexcept;
};

namespace scalar {
extern const PackKernels pack;
}
namespace avx2 {
extern const PackKernels pack;
}
namespace avx512_vnni {
extern const PackKernels pack;
}

}  // namespace dmlcpu
