#include "operators/strides/axis_rows.h"

#include <algorithm>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/buffer_layout.h"
#include "operators/plan_words.h"
#include "operators/strides/element_width.h"
#include "operators/strides/transposed_elements.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

StridedRuns positions_besides(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output,
                              AxisRows::Results results, const TensorLayout* parameters) {
  const std::size_t axis = index_attribute(desc, "axis", output.rank);
  if (input.rank != output.rank || output.sizes[axis] != (results == AxisRows::Results::one ? 1 : input.sizes[axis])) {
    throw std::invalid_argument(desc.type + ": the sizes of input and output do not fit together");
  }
  // So that the axis is no longer than the output's memory, and the size of a row in bytes does not overflow; nor where
  // a row is reduced and its elements are all one.
  constexpr std::int64_t kMostOfOne = std::int64_t{1} << 48;
  if (output.sizes[axis] > 1 && output.strides[axis] == 0) {
    throw std::invalid_argument(desc.type + ": the output has a stride of 0");
  }
  if (input.strides[axis] == 0 && input.sizes[axis] > kMostOfOne) {
    throw std::invalid_argument(desc.type + ": an axis has more elements than any memory");
  }
  TensorLayout input_positions = input, output_positions = output;
  input_positions.sizes[axis] = output_positions.sizes[axis] = 1;
  const std::array<const TensorLayout*, 3> operands = {&output_positions, &input_positions, parameters};
  return StridedRuns(operands);
}

}  // namespace

AxisRows::AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
                   Results results)
    : AxisRows(desc, input, output, target, results, nullptr) {}

AxisRows::AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
                   const TensorLayout& parameters)
    : AxisRows(desc, input, output, target, Results::each, &parameters) {}

AxisRows::AxisRows(const OperatorDesc& desc, std::size_t input, std::size_t output, const ExecutionTarget& target,
                   Results results, const TensorLayout* parameters)
    : positions_(positions_besides(desc, desc.tensor(input), desc.tensor(output), results, parameters)),
      element_bytes_(element_size(desc.tensor(output).type)),
      pack_(*target.kernels().pack),
      num_threads_(target.num_threads) {
  // Where rows are neighbours, 16 floats of theirs are a cache line. Staged rows take 128 KiB at most, unless one
  // takes more, and stay in a level-2 cache. Columns are a task's at most, so that several threads share long ones.
  constexpr std::size_t kRows = 16, kBlockElements = 32768, kMostColumns = 16384;
  const std::size_t axis = index_attribute(desc, "axis", desc.tensor(output).rank);
  length_ = static_cast<std::size_t>(desc.tensor(input).sizes[axis]);
  output_length_ = static_cast<std::size_t>(desc.tensor(output).sizes[axis]);
  const auto steps = [&](const TensorLayout& tensor, std::size_t operand) {
    return Steps{(tensor.sizes[axis] == 1 ? 1 : tensor.strides[axis]) * element_bytes(),
                 positions_.stride(operand) * element_bytes()};
  };
  output_ = steps(desc.tensor(output), 0);
  input_ = steps(desc.tensor(input), 1);
  are_columns_ = results != Results::each && positions_.length() > 1;
  are_apart_ = are_columns_ && (positions_.stride(0) != 1 || positions_.stride(1) != 1);
  // Of fewer most lanes would be empty: 8 rows of 64 take a half more time as columns, where each has many results.
  const std::size_t least_apart = results == Results::one ? 4 : 16;
  // Rows of 3 take 3.4 ns each by themselves and 1.1 as columns, rows of 12 3.4 and 2.7.
  constexpr std::size_t kMostOfOne = 12;
  const bool is_long = results == Results::one && length_ > kMostOfOne;
  if (are_apart_ && (is_long || positions_.length() < least_apart)) are_columns_ = are_apart_ = false;
  // Narrower ones cost more calls than the copies do, which stay in a level-1 cache.
  constexpr std::size_t kNarrow = 16, kNarrowElements = 4096;
  are_narrow_ = are_columns_ && !are_apart_ && positions_.length() < kNarrow && positions_.rows() >= kNarrow &&
                length_ * positions_.length() * kNarrow <= kNarrowElements;
  const std::size_t of_task =
      elements_of_task(positions_.elements() * static_cast<double>(length_), target.num_threads);
  rows_of_block_ = are_narrow_    ? kNarrowElements / (length_ * positions_.length())
                   : are_apart_   ? std::max(kNarrowElements / length_, kRows)
                   : are_columns_ ? std::clamp(of_task / length_, kRows, kMostColumns)
                                  : std::clamp(kBlockElements / length_, std::size_t{1}, kRows);
  const std::size_t along = are_narrow_ ? positions_.rows() : positions_.length();
  rows_of_block_ = std::min(rows_of_block_, along);
  blocks_of_run_ = (along + rows_of_block_ - 1) / rows_of_block_;
  const std::size_t of_block = rows_of_block_ * (are_narrow_ ? positions_.length() : 1) * length_;
  blocks_of_task_ = std::max(of_task / of_block, std::size_t{1});
  BufferLayout staging;
  staging.take(staging_size(), static_cast<std::size_t>(participants()));
  temporary_size_ = staging.size();
}

void AxisRows::check_parameter(const OperatorDesc& desc, std::size_t tensor) const {
  const TensorLayout& layout = desc.tensor(tensor);
  const auto count = static_cast<std::int64_t>(length_);
  if (layout.element_count() != count || layout.span() != count) {
    throw std::invalid_argument(desc.type + ": a parameter has not one element for each of a row's");
  }
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (layout.sizes[axis] != 1 && layout.sizes[axis] != count) {
      throw std::invalid_argument(desc.type + ": a parameter has more than one axis");
    }
  }
}

int AxisRows::participants() const {
  return static_cast<int>(std::min(task_count(), static_cast<std::size_t>(num_threads_)));
}

std::size_t AxisRows::temporary_size() const { return temporary_size_; }

std::uint8_t* AxisRows::scratch() const { return staging_size() > 0 ? thread_scratch(temporary_size()) : nullptr; }

AxisRows::Block AxisRows::block_of(std::size_t block) const {
  if (are_narrow_) {
    const std::size_t first = block % blocks_of_run_ * rows_of_block_;
    const StridedRuns::Offsets offsets = positions_.offsets(block / blocks_of_run_ * positions_.rows() + first);
    return {offsets[1] * element_bytes(), offsets[0] * element_bytes(), offsets[2],
            std::min(rows_of_block_, positions_.rows() - first)};
  }
  const StridedRuns::Offsets offsets = positions_.offsets(block / blocks_of_run_);
  const std::size_t first = block % blocks_of_run_ * rows_of_block_;
  const auto row = static_cast<std::int64_t>(first);
  return {offsets[1] * element_bytes() + row * input_.row_step, offsets[0] * element_bytes() + row * output_.row_step,
          offsets[2] + row * positions_.stride(2), std::min(rows_of_block_, positions_.length() - first)};
}

void AxisRows::gather_rows(const std::uint8_t* source, std::size_t rows, std::uint8_t* staged_rows) const {
  const auto count = static_cast<std::int64_t>(rows), length = static_cast<std::int64_t>(length_);
  if (input_.row_step == element_bytes()) {
    transpose_elements(pack_, element_bytes_, source, in_elements(input_).column, length, count, staged_rows, length);
    return;
  }
  with_element_of(element_bytes_, [&]<class Element>(Element) {
    copy_rows(reinterpret_cast<const Element*>(source), in_elements(input_), reinterpret_cast<Element*>(staged_rows),
              {length, 1}, count, length);
  });
}

void AxisRows::scatter_rows(const std::uint8_t* staged_rows, std::size_t rows, std::uint8_t* target) const {
  const auto count = static_cast<std::int64_t>(rows), length = static_cast<std::int64_t>(length_);
  const auto results = static_cast<std::int64_t>(output_length_);
  if (output_.row_step == element_bytes() && results == length) {
    transpose_elements(pack_, element_bytes_, staged_rows, length, count, results, target, in_elements(output_).column);
    return;
  }
  with_element_of(element_bytes_, [&]<class Element>(Element) {
    copy_rows(reinterpret_cast<const Element*>(staged_rows), {length, 1}, reinterpret_cast<Element*>(target),
              in_elements(output_), count, results);
  });
}

// Rows of neighbours are transposed. Of others, and of blocks, an element of each is taken at once, as they have few.
void AxisRows::gather_columns(const std::uint8_t* source, std::size_t blocks, std::uint8_t* together) const {
  const auto columns = static_cast<std::int64_t>(are_narrow_ ? positions_.length() : 1);
  const auto count = static_cast<std::int64_t>(blocks);
  const std::int64_t step = are_narrow_ ? positions_.row_stride(1) : positions_.stride(1);
  if (!are_narrow_ && input_.element_step == element_bytes()) {
    const auto length = static_cast<std::int64_t>(length_);
    return transpose_elements(pack_, element_bytes_, source, step, count, length, together, count);
  }
  with_element_of(element_bytes_, [&]<class Element>(Element) {
    auto* target = reinterpret_cast<Element*>(together);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(length_); ++i, target += columns * count) {
      const auto* row = reinterpret_cast<const Element*>(source + i * input_.element_step);
      for (std::int64_t j = 0; j < columns; ++j) copy_steps(row + j, step, target + j, columns, count);
    }
  });
}

void AxisRows::scatter_columns(const std::uint8_t* together, std::size_t blocks, std::uint8_t* target) const {
  const auto columns = static_cast<std::int64_t>(are_narrow_ ? positions_.length() : 1);
  const auto count = static_cast<std::int64_t>(blocks);
  const std::int64_t step = are_narrow_ ? positions_.row_stride(0) : positions_.stride(0);
  if (!are_narrow_ && output_.element_step == element_bytes()) {
    const auto length = static_cast<std::int64_t>(output_length_);
    return transpose_elements(pack_, element_bytes_, together, count, length, count, target, step);
  }
  with_element_of(element_bytes_, [&]<class Element>(Element) {
    const auto* source = reinterpret_cast<const Element*>(together);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(output_length_); ++i, source += columns * count) {
      auto* row = reinterpret_cast<Element*>(target + i * output_.element_step);
      for (std::int64_t j = 0; j < columns; ++j) copy_steps(source + j, columns, row + j, step, count);
    }
  });
}

ElementStrides AxisRows::in_elements(const Steps& steps) const {
  return {steps.row_step / element_bytes(), steps.element_step / element_bytes()};
}

std::string AxisRows::describe() const {
  return "rows: " + std::to_string(positions_.count() * positions_.length()) + " of " + std::to_string(length_) +
         (staged() ? " elements, through scratch memory in blocks of " + std::to_string(rows_of_block_)
          : are_narrow_
              ? " elements, as columns through scratch memory, of " + std::to_string(rows_of_block_) + " blocks"
          : are_apart_   ? " elements, as columns through scratch memory in blocks of " + std::to_string(rows_of_block_)
          : are_columns_ ? " elements, as columns in blocks of " + std::to_string(rows_of_block_)
                         : " elements, in place") +
         "\n" + tasks_line(static_cast<std::int64_t>(task_count()), participants());
}

}  // namespace dmlcpu
