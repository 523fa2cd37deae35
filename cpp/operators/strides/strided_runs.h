// Iteration over tensors of equal sizes and any strides, as runs along one axis.
//
// The axes are ordered, with the largest stride of one operand outermost, and joined (strided_axes.h), so that any
// memory layout that is one run becomes one loop:
//
//   {N, C, H, W} packed in every operand               ->  one run of N*C*H*W
//   the same with a scale that varies along C          ->  N*C runs of H*W, the scale's stride 0
//   {N, H, W, C} memory with that scale                ->  N*H*W runs of C, the scale's stride 1
//
// Runs that follow one another at constant distances are the rows of a plane. An operand whose elements are not
// neighbours within a run may have them as neighbours across rows; such an axis is brought next to the runs:
//
//   {N, H, W, C} output of a {N, C, H, W} input        ->  N planes of H*W rows, runs of C; the input's row stride is 1
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "operators/operator.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_axes.h"

namespace dmlcpu {

class StridedRuns {
 public:
  using Offsets = OperandStrides;

  // At most kMaxOperands tensors of equal sizes, the first present; the one of number decider decides the order of the
  // axes. Absent ones are null and stay at offset 0. Throws std::invalid_argument if sizes differ.
  explicit StridedRuns(std::span<const TensorLayout* const> operands, std::size_t decider = 0);

  std::size_t length() const { return static_cast<std::size_t>(sizes_[0]); }  // elements of a run
  std::size_t count() const { return count_; }
  double elements() const { return static_cast<double>(count_) * static_cast<double>(length()); }
  // The axes as they are walked: axis 0 is the run, axis 1 the next outer one.
  std::size_t rank() const { return rank_; }
  std::int64_t size(std::size_t axis) const { return sizes_[axis]; }
  std::int64_t stride(std::size_t operand, std::size_t axis) const { return strides_[axis][operand]; }

  std::int64_t stride(std::size_t operand) const { return strides_[0][operand]; }      // within a run, in elements
  std::int64_t row_stride(std::size_t operand) const { return strides_[1][operand]; }  // from run to run in a plane
  Offsets offsets(std::size_t run) const;                                              // of a run's first elements
  std::size_t rows() const { return rank_ > 1 ? static_cast<std::size_t>(sizes_[1]) : 1; }  // runs of a plane
  // The runs from this one to the end of its plane, at most limit of them.
  std::size_t rows_from(std::size_t run, std::size_t limit) const { return std::min(rows() - run % rows(), limit); }
  // Whether the elements of a run are neither neighbours nor one element.
  bool apart(std::size_t operand) const { return stride(operand) != 1 && stride(operand) != 0 && length() > 1; }
  // Whether the runs of a plane follow one another as one long run.
  bool dense(std::size_t operand) const {
    return stride(operand) == 1 && (rank_ == 1 || row_stride(operand) == sizes_[0]);
  }

  // The runs in words, one property a line, for CompiledOperator::describe.
  std::string describe(int num_threads) const;

  // The whole iteration cut into tasks of about equal work: a task is a range of runs, or a piece of one or of several.
  struct Piece {
    std::size_t first_run, run_count;
    std::size_t begin, size;  // within each of those runs
  };
  // The tasks of so many threads (operators/task_size.h).
  class Tasks {
   public:
    Tasks(const StridedRuns& runs, int num_threads);
    std::size_t count() const { return count_; }
    Piece piece(std::size_t task) const;

   private:
    std::size_t length_, together_;  // of a run, and runs that one task may take together
    std::size_t rows_, columns_;     // of a task
    std::size_t down_, across_, count_;
  };
  Tasks tasks(int num_threads) const { return {*this, num_threads}; }

  // Some neighbouring columns of some rows of a plane.
  struct Block {
    Offsets offsets;  // of the first elements
    std::size_t rows, columns;
  };
  // Calls visit(block) for blocks that cover a piece, of so many rows and columns at most. A block is followed by the
  // one below it, which may need what has been brought together for this one.
  template <class Visit>
  void for_each_block(const Piece& piece, std::size_t max_rows, std::size_t max_columns, const Visit& visit) const {
    for (std::size_t column = 0; column < piece.size; column += max_columns) {
      const std::size_t columns = std::min(max_columns, piece.size - column);
      for (std::size_t row = 0, rows = 0; row < piece.run_count; row += rows) {
        const std::size_t first = piece.first_run + row;
        rows = rows_from(first, std::min(max_rows, piece.run_count - row));
        visit(Block{offsets_at(first, piece.begin + column), rows, columns});
      }
    }
  }

  // An operand's elements of a block of so many rows and columns.
  Rows rows_of(std::size_t operand, std::size_t rows, std::size_t columns) const {
    return {rows, columns, row_stride(operand), stride(operand)};
  }

 private:
  bool crossed() const;
  std::size_t rows_together() const;
  Offsets offsets_at(std::size_t run, std::size_t column) const;

  // Axis 0 is the innermost here.
  std::size_t rank_ = 1;
  std::size_t count_ = 1;
  Extents sizes_{};
  std::array<Offsets, kMaxRank> strides_{};
};

}  // namespace dmlcpu
