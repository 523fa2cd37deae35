// The rows of a softmax, a layer normalization or a mean: the elements along one axis, for every position on the other
// axes, of an input and an output of equal types and any strides. Sizes are equal, or the output's axis has length 1.
//
// Where the axis is a run of neighbours in both tensors, kernels read and write it in place. Elsewhere, as with the
// channels of an {N, C, H, W} tensor, blocks of rows pass through scratch memory: rows that are neighbours are copied
// together, so that a cache line serves all of them. Where there are kernels for them, of rows of one result each or of
// short ones, rows that are neighbours in both tensors need no such copy: they are the columns of a block, whose
// elements are taken a row of the block at a time. Of narrow blocks several pass through scratch memory, where their
// columns are beside each other, and so do short rows that are no neighbours. Rows may have parameters, which lie where
// another tensor has elements for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class AxisRows {
 public:
  // Of a row: one for each element, where neighbours may be columns or may not, or one altogether.
  enum class Results : std::uint8_t { each, each_of_columns, one };

  // The axis is the desc's attribute "axis". Throws std::invalid_argument, and std::bad_alloc where rows pass through
  // more memory than there can be.
  AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
           Results results = Results::each);
  // The same of rows of equal lengths, with a layout of the input's sizes, but of length 1 along the axis, that tells
  // where each row's parameters are.
  AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
           const TensorLayout& parameters);

  std::size_t length() const { return length_; }  // of a row
  // Whether rows are columns; run_columns() is for these, run() for all others.
  bool are_columns() const { return are_columns_; }
  // Throws std::invalid_argument unless a tensor is one contiguous run of an element for each of a row's.
  void check_parameter(const OperatorDesc& desc, std::size_t tensor) const;

  std::string describe() const;
  std::size_t temporary_size() const;

  // row(input, output, count) on contiguous rows that cover the tensors; output, count elements or one, may be exactly
  // input.
  template <class Row>
  void run(const void* input, void* output, const Row& row) const {
    run_with_parameters(input, output, [&](const void* elements, void* results, std::size_t count, std::int64_t) {
      row(elements, results, count);
    });
  }

  // row(input, output, count, offset), the offset that of the row's parameters in elements.
  template <class Row>
  void run_with_parameters(const void* input, void* output, const Row& row) const {
    run_blocks(input, output,
               [&](const std::uint8_t* source, std::uint8_t* target, const Block& block, std::int64_t source_step,
                   std::int64_t target_step) {
                 for (std::size_t i = 0; i < block.rows; ++i) {
                   const auto at = static_cast<std::int64_t>(i);
                   row(source + at * source_step, target + at * target_step, length_, parameters_of(block, i));
                 }
               });
  }

  // rows(input, output, count, input_step, output_step) on blocks of count contiguous rows, whose first elements are so
  // many bytes apart; output may be exactly input.
  template <class Rows>
  void run_together(const void* input, void* output, const Rows& rows) const {
    run_blocks(input, output,
               [&](const std::uint8_t* source, std::uint8_t* target, const Block& block, std::int64_t source_step,
                   std::int64_t target_step) { rows(source, target, block.rows, source_step, target_step); });
  }

  // columns(input, output, count, input_step, output_step) on blocks of count columns, whose elements are so many bytes
  // apart; output may be exactly input.
  template <class Columns>
  void run_columns(const void* input, void* output, const Columns& columns) const {
    for_each_block(input, output,
                   [&](const std::uint8_t* source, std::uint8_t* target, const Block& block, std::uint8_t* together) {
                     if (!passes_through())
                       return columns(source, target, block.rows, input_.element_step, output_.element_step);
                     const std::size_t count = are_narrow_ ? block.rows * positions_.length() : block.rows;
                     const std::int64_t step = static_cast<std::int64_t>(count) * element_bytes();
                     gather_columns(source, block.rows, together);
                     columns(together, together, count, step, step);
                     scatter_columns(together, block.rows, target);
                   });
  }

 private:
  struct Steps {
    std::int64_t element_step, row_step;  // in bytes
  };
  // Neighbouring rows; or narrow blocks of columns, of which rows is the number.
  struct Block {
    std::int64_t input_offset, output_offset;  // of the first row, in bytes
    std::int64_t parameters_offset;            // of its parameters, in elements
    std::size_t rows;
  };

  AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
           Results results, const TensorLayout* parameters);

  // body(source, target, block, staging), the last being room for copies of a block's elements, if any are made.
  template <class Body>
  void for_each_block(const void* input, void* output, const Body& body) const {
    std::uint8_t* staging = scratch();
    parallel_for(task_count(), num_threads_, [&](std::size_t task, int slot) noexcept {
      for (std::size_t block = task * blocks_of_task_; block < end_of_task(task); ++block) {
        const Block at = block_of(block);
        body(static_cast<const std::uint8_t*>(input) + at.input_offset,
             static_cast<std::uint8_t*>(output) + at.output_offset, at,
             staging + static_cast<std::size_t>(slot) * staging_size());
      }
    });
  }

  // rows(source, target, block, source_step, target_step) on blocks of contiguous rows: the tensors', or copies of
  // them.
  template <class Rows>
  void run_blocks(const void* input, void* output, const Rows& rows) const {
    for_each_block(input, output,
                   [&](const std::uint8_t* source, std::uint8_t* target, const Block& block, std::uint8_t* copies) {
                     if (!staged()) return rows(source, target, block, input_.row_step, output_.row_step);
                     const auto step = static_cast<std::int64_t>(row_bytes());
                     gather_rows(source, block.rows, copies);
                     rows(copies, copies, block, step, step);
                     scatter_rows(copies, block.rows, target);
                   });
  }

  std::int64_t parameters_of(const Block& block, std::size_t row) const {
    return block.parameters_offset + static_cast<std::int64_t>(row) * positions_.stride(2);
  }
  std::size_t row_bytes() const { return length_ * element_bytes_; }
  bool staged() const {
    return !are_columns_ && (input_.element_step != element_bytes() || output_.element_step != element_bytes());
  }
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(element_bytes_); }
  std::size_t staging_size() const {
    if (are_narrow_) return rows_of_block_ * positions_.length() * row_bytes();
    return staged() || are_apart_ ? rows_of_block_ * row_bytes() : 0;
  }
  bool passes_through() const { return are_narrow_ || are_apart_; }
  // Narrow blocks are taken along the next axis.
  std::size_t block_count() const {
    return positions_.count() / (are_narrow_ ? positions_.rows() : 1) * blocks_of_run_;
  }
  std::size_t task_count() const { return (block_count() + blocks_of_task_ - 1) / blocks_of_task_; }
  std::size_t end_of_task(std::size_t task) const { return std::min((task + 1) * blocks_of_task_, block_count()); }
  int participants() const;
  std::uint8_t* scratch() const;
  Block block_of(std::size_t block) const;
  ElementStrides in_elements(const Steps& steps) const;
  void gather_rows(const std::uint8_t* source, std::size_t rows, std::uint8_t* staged_rows) const;
  void scatter_rows(const std::uint8_t* staged_rows, std::size_t rows, std::uint8_t* target) const;
  void gather_columns(const std::uint8_t* source, std::size_t blocks, std::uint8_t* together) const;
  void scatter_columns(const std::uint8_t* together, std::size_t blocks, std::uint8_t* target) const;

  StridedRuns positions_;  // the first elements of the rows: operand 0 is the output, 1 the input, 2 parameters
  std::size_t element_bytes_, length_, output_length_;
  Steps input_, output_;
  bool are_columns_, are_apart_, are_narrow_;
  std::size_t rows_of_block_, blocks_of_run_, blocks_of_task_, temporary_size_;
  const PackKernels& pack_;
  int num_threads_;
};

}  // namespace dmlcpu
