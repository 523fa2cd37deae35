// CUMULATIVE_SUMMATION: tensors input, output, of equal sizes, INT32, INT64 or FLOAT32; attributes axis, axis_direction
// (1: from the end to the beginning), has_exclusive_sum (1: an element is not part of its own sum). Sums of integers
// wrap, of floats round one after the other. Of graphs alone.
//
// Many rows are summed together. Where their elements are neighbours, as along an outer axis, one position of all rows
// becomes vectors; elsewhere a few rows hide the latency of each other's additions.
#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/aligned_buffer.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// Rows whose sums are kept in memory, and the fewest that are worth it.
constexpr std::size_t kMostRows = 1024, kNeighbours = 16;

class CumulativeSummation final : public CompiledOperator {
 public:
  CumulativeSummation(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        backwards_(index_attribute(desc(), "axis_direction", 2) == 1),
        exclusive_(index_attribute(desc(), "has_exclusive_sum", 2) == 1),
        rows_(row_runs()),
        length_(as_size(desc().tensor(kInput).sizes[axis_])),
        rows_of_block_(rows_of_block()),
        blocks_of_run_((rows_.length() + rows_of_block_ - 1) / rows_of_block_),
        add_(target().kernels().float_functions->binary[static_cast<std::size_t>(FloatBinary::add)]) {
    if (desc().tensor(kInput).type != desc().tensor(kOutput).type) {
      throw std::invalid_argument(desc().type + ": input and output differ in data type");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(rows_.count() * rows_.length()) + " rows, each from " +
           (backwards_ ? "its end" : "its beginning") + (neighbours() ? "; neighbours in vectors" : "");
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    switch (desc().tensor(kInput).type) {
      case DataType::int64:
        return sum<std::int64_t, std::uint64_t>(tensors);
      case DataType::int32:
        return sum<std::int32_t, std::uint32_t>(tensors);
      default:
        return sum<float, float>(tensors);
    }
  }

 private:
  // The first elements of the rows. Sizes are checked with the axis's own.
  StridedRuns row_runs() const {
    TensorLayout output = desc().tensor(kOutput), input = desc().tensor(kInput);
    StridedRuns(std::array<const TensorLayout*, 2>{&output, &input});
    output.sizes[axis_] = input.sizes[axis_] = 1;
    return StridedRuns(std::array<const TensorLayout*, 2>{&output, &input});
  }

  // Those of a task, where there are several; whole vectors, and cache lines. What lies side by side is added in long
  // stretches: a few lines of each step, far apart, take longer on two threads than all of them on one.
  std::size_t rows_of_block() const {
    constexpr std::size_t kLeastStretch = 256;
    if (target().num_threads == 1) return kMostRows;
    const std::size_t rows = neighbours()
                                 ? std::clamp(rows_.length() / as_size(target().num_threads), kLeastStretch, kMostRows)
                                 : std::clamp(kLeastElementsOfTask / length_, kNeighbours, kMostRows);
    return round_up(rows, kNeighbours);
  }

  bool neighbours() const { return rows_.length() >= kNeighbours && rows_.stride(0) == 1 && rows_.stride(1) == 1; }

  // From one element of a row to the next one that is added.
  std::int64_t step(std::size_t tensor) const {
    const std::int64_t stride = desc().tensor(tensor).strides[axis_];
    return backwards_ ? -stride : stride;
  }
  std::int64_t first(std::size_t tensor) const {
    return backwards_ ? static_cast<std::int64_t>(length_ - 1) * desc().tensor(tensor).strides[axis_] : 0;
  }

  template <class Element, class Sum>
  void sum(const TensorPointers& tensors) const {
    const Element* input = static_cast<const Element*>(tensors[kInput]) + first(kInput);
    Element* output = static_cast<Element*>(tensors[kOutput]) + first(kOutput);
    const std::size_t blocks = rows_.count() * blocks_of_run_;
    const std::size_t elements = std::min(rows_of_block_, rows_.length()) * length_;
    const std::size_t blocks_of_task =
        rows_of_task(static_cast<double>(blocks), static_cast<double>(elements), target().num_threads);
    parallel_for((blocks + blocks_of_task - 1) / blocks_of_task, target().num_threads,
                 [&](std::size_t task, int) noexcept {
                   const std::size_t end = std::min((task + 1) * blocks_of_task, blocks);
                   for (std::size_t block = task * blocks_of_task; block < end; ++block) {
                     const StridedRuns::Offsets offsets = rows_.offsets(block / blocks_of_run_);
                     const std::size_t begin = block % blocks_of_run_ * rows_of_block_;
                     const auto row = static_cast<std::int64_t>(begin);
                     sum_block<Element, Sum>(input + offsets[1] + row * rows_.stride(1),
                                             output + offsets[0] + row * rows_.stride(0),
                                             std::min(rows_of_block_, rows_.length() - begin));
                   }
                 });
  }

  template <class Element, class Sum>
  void sum_block(const Element* input, Element* output, std::size_t rows) const noexcept {
    if (neighbours() && rows >= kNeighbours) return sum_neighbours<Element, Sum>(input, output, rows);
    const auto sum_rows = [&]<std::size_t count>() {
      for (; rows >= count; rows -= count) {
        sum_together<Element, Sum, count>(input, output);
        input += static_cast<std::int64_t>(count) * rows_.stride(1);
        output += static_cast<std::int64_t>(count) * rows_.stride(0);
      }
    };
    sum_rows.template operator()<8>();
    sum_rows.template operator()<2>();
    sum_rows.template operator()<1>();
  }

  // Rows at any distance from one another, their sums in registers.
  template <class Element, class Sum, std::size_t rows>
  void sum_together(const Element* input, Element* output) const noexcept {
    const std::int64_t input_row = rows_.stride(1), output_row = rows_.stride(0);
    const std::int64_t input_step = step(kInput), output_step = step(kOutput);
    const bool exclusive = exclusive_;
    Sum totals[rows];
    for (std::size_t row = 0; row < rows; ++row) {
      const auto place = static_cast<std::int64_t>(row);
      totals[row] = static_cast<Sum>(input[place * input_row]);
      output[place * output_row] = exclusive ? Element{0} : static_cast<Element>(totals[row]);
    }
    for (std::size_t i = 1; i < length_; ++i) {
      input += input_step;
      output += output_step;
      for (std::size_t row = 0; row < rows; ++row) {
        const auto place = static_cast<std::int64_t>(row);
        const Sum through = totals[row] + static_cast<Sum>(input[place * input_row]);
        output[place * output_row] = static_cast<Element>(exclusive ? totals[row] : through);
        totals[row] = through;
      }
    }
  }

  // Up to kMostRows rows whose elements are neighbours. The sums are what was written last; of floats by a kernel.
  template <class Element, class Sum>
  void sum_neighbours(const Element* input, Element* output, std::size_t rows) const noexcept {
    if (exclusive_) return sum_before<Element, Sum>(input, output, rows);
    std::copy_n(input, rows, output);
    for (std::size_t i = 1; i < length_; ++i) {
      const Element* before = output;
      input += step(kInput);
      output += step(kOutput);
      if constexpr (std::is_same_v<Element, float>) {
        add_({.a = before, .b = input, .a_repeats = false, .b_repeats = false, .output = output, .count = rows});
      } else {
        for (std::size_t row = 0; row < rows; ++row) {
          output[row] = static_cast<Element>(static_cast<Sum>(before[row]) + static_cast<Sum>(input[row]));
        }
      }
    }
  }

  // The same without an element's own: the input may be the output.
  template <class Element, class Sum>
  void sum_before(const Element* input, Element* output, std::size_t rows) const noexcept {
    Sum totals[kMostRows];
    for (std::size_t row = 0; row < rows; ++row) {
      totals[row] = static_cast<Sum>(input[row]);
      output[row] = Element{0};
    }
    for (std::size_t i = 1; i < length_; ++i) {
      input += step(kInput);
      output += step(kOutput);
      for (std::size_t row = 0; row < rows; ++row) {
        const auto value = static_cast<Sum>(input[row]);
        output[row] = static_cast<Element>(totals[row]);
        totals[row] += value;
      }
    }
  }

  std::size_t axis_;
  bool backwards_, exclusive_;
  StridedRuns rows_;  // of the output, of the input
  std::size_t length_, rows_of_block_, blocks_of_run_;
  FloatBinaryFunction add_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_cumulative_summation(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CumulativeSummation>(std::move(desc), target);
}

}  // namespace dmlcpu
