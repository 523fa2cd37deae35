// Blocks of tensors of equal sizes and any strides for kernels that take contiguous elements.
//
// A call of a kernel costs as much as some hundred elements. So long rows are blocks by themselves, and of short ones a
// block has many, which are staged where they are not one run as they lie:
//
//   {N, 256, 256, 3} minus {3}          the 3 values are written out once for each block of 682 pixels
//   {8400, 2} into columns of {8400, 4} blocks of 1024 rows, computed in a buffer and copied
//
// Where elements of an operand are neighbours across rows alone, blocks are tiles, so that its cache lines are read
// whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"

namespace dmlcpu {

class RowBlocks {
 public:
  // For the first operands of runs, at most this many bytes an element.
  RowBlocks(const StridedRuns& runs, std::size_t operands, std::size_t element_bytes) {
    bool apart = false, direct = true;
    for (std::size_t i = 0; i < operands; ++i) {
      apart = apart || runs.apart(i);
      direct = direct && runs.stride(i) == 1;
    }
    if (runs.length() >= kLong && direct) {
      max_columns_ = runs.length();
      return;
    }
    const std::size_t elements = kChunkBytes / element_bytes;
    constexpr std::size_t kTileColumns = 64;
    max_columns_ = std::min(runs.length(), apart && runs.rows() > 1 ? kTileColumns : elements);
    max_rows_ = elements / max_columns_;
  }

  // visit(offsets, rows, columns) for blocks that cover a piece; offsets are of their first elements.
  template <class Visit>
  void visit(const StridedRuns& runs, const StridedRuns::Piece& piece, const Visit& visit) const {
    for (std::size_t row = 0, rows = 0; row < piece.run_count; row += rows) {
      rows = runs.rows_from(piece.first_run + row, std::min(max_rows_, piece.run_count - row));
      const StridedRuns::Offsets of_row = runs.offsets(piece.first_run + row);
      for (std::size_t column = 0; column < piece.size; column += max_columns_) {
        StridedRuns::Offsets offsets = of_row;
        for (std::size_t i = 0; i < offsets.size(); ++i) {
          offsets[i] += static_cast<std::int64_t>(piece.begin + column) * runs.stride(i);
        }
        visit(offsets, rows, std::min(max_columns_, piece.size - column));
      }
    }
  }

 private:
  static constexpr std::size_t kLong = 128;

  std::size_t max_rows_ = 1, max_columns_;
};

}  // namespace dmlcpu
