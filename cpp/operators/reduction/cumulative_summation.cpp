// CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: tensors input, output, of equal sizes, INT32, UINT32, INT64 or FLOAT32;
// attributes axis, axis_direction (1: from the end to the beginning), and has_exclusive_sum or has_exclusive_product
// (1: an element is not part of its own total, so that the first total is 0 or 1). Totals of integers wrap, of floats
// round one after the other. Of graphs alone.
//
// Many rows are totalled together. Where their elements are neighbours, as along an outer axis, one position of all
// rows becomes vectors; elsewhere a few rows hide the latency of each other's arithmetic.
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

// Rows whose totals are kept in memory, and the fewest that are worth it.
constexpr std::size_t kMostRows = 1024, kNeighbours = 16;

// What is done to a total and the next element, and the total of no elements.
struct Sum {
  static constexpr FloatBinary kKernel = FloatBinary::add;
  static constexpr int kOfNone = 0;
  template <class Number>
  static Number of(Number total, Number element) noexcept {
    return total + element;
  }
};
struct Product {
  static constexpr FloatBinary kKernel = FloatBinary::multiply;
  static constexpr int kOfNone = 1;
  template <class Number>
  static Number of(Number total, Number element) noexcept {
    return total * element;
  }
};

template <class Total>
class CumulativeOperator final : public CompiledOperator {
 public:
  CumulativeOperator(const char* has_exclusive_total, OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        backwards_(index_attribute(desc(), "axis_direction", 2) == 1),
        exclusive_(index_attribute(desc(), has_exclusive_total, 2) == 1),
        rows_(row_runs()),
        length_(as_size(desc().tensor(kInput).sizes[axis_])),
        rows_of_block_(rows_of_block()),
        blocks_of_run_((rows_.length() + rows_of_block_ - 1) / rows_of_block_),
        total_(target().kernels().float_functions->binary[static_cast<std::size_t>(Total::kKernel)]) {
    if (desc().tensor(kInput).type != desc().tensor(kOutput).type) {
      throw std::invalid_argument(desc().type + ": input and output differ in data type");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(rows_.count() * rows_.length()) + " rows, each from " +
           (backwards_ ? "its end" : "its beginning") + (neighbours() ? "; neighbours in vectors" : "");
  }

 protected:
  // Integers as unsigned ones, which wrap.
  void run(const TensorPointers& tensors) const override {
    switch (desc().tensor(kInput).type) {
      case DataType::int64:
        return total<std::uint64_t>(tensors);
      case DataType::int32:
      case DataType::uint32:
        return total<std::uint32_t>(tensors);
      default:
        return total<float>(tensors);
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

  // Those of a task, where there are several; whole vectors, and cache lines. What lies side by side is totalled in
  // long stretches: a few lines of each step, far apart, take longer on two threads than all of them on one.
  std::size_t rows_of_block() const {
    constexpr std::size_t kLeastStretch = 256;
    if (target().num_threads == 1) return kMostRows;
    const std::size_t rows = neighbours()
                                 ? std::clamp(rows_.length() / as_size(target().num_threads), kLeastStretch, kMostRows)
                                 : std::clamp(kLeastElementsOfTask / length_, kNeighbours, kMostRows);
    return round_up(rows, kNeighbours);
  }

  bool neighbours() const { return rows_.length() >= kNeighbours && rows_.stride(0) == 1 && rows_.stride(1) == 1; }

  // From one element of a row to the next one that is totalled.
  std::int64_t step(std::size_t tensor) const {
    const std::int64_t stride = desc().tensor(tensor).strides[axis_];
    return backwards_ ? -stride : stride;
  }
  std::int64_t first(std::size_t tensor) const {
    return backwards_ ? static_cast<std::int64_t>(length_ - 1) * desc().tensor(tensor).strides[axis_] : 0;
  }

  template <class Element>
  void total(const TensorPointers& tensors) const {
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
                     total_block<Element>(input + offsets[1] + row * rows_.stride(1),
                                          output + offsets[0] + row * rows_.stride(0),
                                          std::min(rows_of_block_, rows_.length() - begin));
                   }
                 });
  }

  template <class Element>
  void total_block(const Element* input, Element* output, std::size_t rows) const noexcept {
    if (neighbours() && rows >= kNeighbours) return total_neighbours<Element>(input, output, rows);
    const auto total_rows = [&]<std::size_t count>() {
      for (; rows >= count; rows -= count) {
        total_together<Element, count>(input, output);
        input += static_cast<std::int64_t>(count) * rows_.stride(1);
        output += static_cast<std::int64_t>(count) * rows_.stride(0);
      }
    };
    total_rows.template operator()<8>();
    total_rows.template operator()<2>();
    total_rows.template operator()<1>();
  }

  // Rows at any distance from one another, their totals in registers.
  template <class Element, std::size_t rows>
  void total_together(const Element* input, Element* output) const noexcept {
    const std::int64_t input_row = rows_.stride(1), output_row = rows_.stride(0);
    const std::int64_t input_step = step(kInput), output_step = step(kOutput);
    const bool exclusive = exclusive_;
    Element totals[rows];
    for (std::size_t row = 0; row < rows; ++row) {
      const auto place = static_cast<std::int64_t>(row);
      totals[row] = input[place * input_row];
      output[place * output_row] = exclusive ? Element{Total::kOfNone} : totals[row];
    }
    for (std::size_t i = 1; i < length_; ++i) {
      input += input_step;
      output += output_step;
      for (std::size_t row = 0; row < rows; ++row) {
        const auto place = static_cast<std::int64_t>(row);
        const Element through = Total::of(totals[row], input[place * input_row]);
        output[place * output_row] = exclusive ? totals[row] : through;
        totals[row] = through;
      }
    }
  }

  // Up to kMostRows rows whose elements are neighbours. The totals are what was written last; of floats by a kernel.
  template <class Element>
  void total_neighbours(const Element* input, Element* output, std::size_t rows) const noexcept {
    if (exclusive_) return total_before<Element>(input, output, rows);
    std::copy_n(input, rows, output);
    for (std::size_t i = 1; i < length_; ++i) {
      const Element* before = output;
      input += step(kInput);
      output += step(kOutput);
      if constexpr (std::is_same_v<Element, float>) {
        total_({.a = before, .b = input, .a_repeats = false, .b_repeats = false, .output = output, .count = rows});
      } else {
        for (std::size_t row = 0; row < rows; ++row) output[row] = Total::of(before[row], input[row]);
      }
    }
  }

  // The same without an element's own: the input may be the output.
  template <class Element>
  void total_before(const Element* input, Element* output, std::size_t rows) const noexcept {
    Element totals[kMostRows];
    for (std::size_t row = 0; row < rows; ++row) {
      totals[row] = input[row];
      output[row] = Element{Total::kOfNone};
    }
    for (std::size_t i = 1; i < length_; ++i) {
      input += step(kInput);
      output += step(kOutput);
      for (std::size_t row = 0; row < rows; ++row) {
        const Element value = input[row];
        output[row] = totals[row];
        totals[row] = Total::of(totals[row], value);
      }
    }
  }

  std::size_t axis_;
  bool backwards_, exclusive_;
  StridedRuns rows_;  // of the output, of the input
  std::size_t length_, rows_of_block_, blocks_of_run_;
  FloatBinaryFunction total_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_cumulative_summation(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CumulativeOperator<Sum>>("has_exclusive_sum", std::move(desc), target);
}

std::unique_ptr<CompiledOperator> compile_cumulative_product(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CumulativeOperator<Product>>("has_exclusive_product", std::move(desc), target);
}

}  // namespace dmlcpu
