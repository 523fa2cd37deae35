// Iteration over a tensor whose parameters hold for blocks of it: parameter index = index / (size / parameter size) on
// every axis. Each such axis becomes two, over the blocks and within one, and then all axes are ordered and joined
// (strided_axes.h). The two innermost make a plane, in rows and columns:
//
//   {N, K}, parameters {N, K / 32}   ->  1 plane, N * K / 32 rows of 32, a parameter a row
//   {K, N}, parameters {K / 32, N}   ->  K / 32 planes of 32 rows of N, a parameter a column, the same in every row
//   {N, C, H, W}, {1, C, 1, 1}       ->  N planes of C rows of H * W, a parameter a row
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/strides/strided_axes.h"

namespace dmlcpu {

class BlockedRuns {
 public:
  // Elements of one task: enough that waking a worker (some 10 us) is a small part of the work. Even, so that a task
  // never ends in the middle of a byte of a row of 4-bit elements.
  static constexpr std::size_t kElementsPerTask = 65536;

  // The operands are numbered input, scale, zero point, output, as the tensors of a desc are; the zero point may be
  // absent (null). Throws std::invalid_argument if sizes do not go together.
  BlockedRuns(const TensorLayout& input, const TensorLayout& scale, const TensorLayout* zero_point,
              const TensorLayout& output);

  std::size_t columns() const { return static_cast<std::size_t>(axes_[0].size); }
  std::size_t rows() const { return static_cast<std::size_t>(axes_[1].size); }
  std::int64_t stride(std::size_t operand) const { return axes_[0].strides[operand]; }
  std::int64_t row_stride(std::size_t operand) const { return axes_[1].strides[operand]; }
  OperandStrides offsets(std::size_t plane) const;  // of a plane's first elements

  // A plane is one run of rows * columns elements, equally far apart.
  bool is_uniform(std::size_t operand) const {
    return rows() == 1 || row_stride(operand) == stride(operand) * axes_[0].size;
  }
  // Every row of the operand's elements begins at an even index and has no gaps.
  bool has_even_rows(std::size_t operand) const;

  // The whole iteration cut into tasks of about equal work: the same part of each of several planes.
  struct Piece {
    std::size_t first_plane, plane_count = 1;
    std::size_t first_row = 0, row_count;
    std::size_t first_column = 0, column_count;
  };
  std::size_t task_count() const;
  Piece piece(std::size_t task) const;

  // The planes in words, one property a line, for CompiledOperator::describe.
  std::string describe(int num_threads) const;

 private:
  std::size_t pieces_of_plane() const;

  // Axis 0 is the innermost; at least two, the outer ones perhaps of length 1. A tensor's axis makes two at most.
  std::array<StridedAxis, 2 * kMaxRank> axes_{};
  std::size_t rank_ = 2;
  std::size_t plane_count_ = 1;
};

}  // namespace dmlcpu
