// The operands of gemm/gemm.h made of matrices of any strides, a block at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace dmlcpu {

// A matrix of 8-bit codes as it lies in memory. flip is 0x80 where the codes change their signedness: gemm.h's a is
// unsigned, b signed.
struct StridedCodes {
  const std::uint8_t* data;
  std::int64_t row_stride, column_stride;
  std::uint8_t flip;
};

// A block of a matrix: rows and columns [first, first + count).
struct BlockRange {
  std::int64_t first_row, rows;
  std::int64_t first_column, columns;
};

// Rows of gemm.h's a, row_bytes apart. What pads them up to row_bytes is left as it is: b has zeros there.
void pack_left(const PackKernels& kernels, const StridedCodes& a, const BlockRange& block, std::size_t row_bytes,
               std::uint8_t* rows);

// Panels of gemm.h's b, nr columns each, k_padded * nr bytes apart; k are the rows of the matrix. Rows up to k_padded
// (a multiple of 4) and columns up to the end of the last panel are zeros.
void pack_right(const PackKernels& kernels, const StridedCodes& b, const BlockRange& block, std::size_t nr,
                std::size_t k_padded, std::uint8_t* panels);

}  // namespace dmlcpu
