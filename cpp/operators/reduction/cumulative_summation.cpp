// CUMULATIVE_SUMMATION: tensors input, output, of equal sizes, INT32, INT64 or FLOAT32; attributes axis, axis_direction
// (1: from the end to the beginning), has_exclusive_sum (1: an element is not part of its own sum). Sums of integers
// wrap, of floats begin with 0 and round one after the other. Of graphs alone.
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/sizes.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class CumulativeSummation final : public CompiledOperator {
 public:
  CumulativeSummation(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        backwards_(index_attribute(desc(), "axis_direction", 2) == 1),
        exclusive_(index_attribute(desc(), "has_exclusive_sum", 2) == 1),
        rows_(row_runs()) {
    if (desc().tensor(kInput).type != desc().tensor(kOutput).type) {
      throw std::invalid_argument(desc().type + ": input and output differ in data type");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(rows_.count() * rows_.length()) + " rows, each from " +
           (backwards_ ? "its end" : "its beginning");
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

  template <class Element, class Sum>
  void sum(const TensorPointers& tensors) const {
    const std::size_t length = as_size(desc().tensor(kInput).sizes[axis_]), rows = rows_.count() * rows_.length();
    const std::size_t rows_of_task = std::max<std::size_t>(StridedRuns::kElementsPerTask / length, 1);
    parallel_for((rows + rows_of_task - 1) / rows_of_task, target().num_threads, [&](std::size_t task, int) noexcept {
      for (std::size_t row = task * rows_of_task; row < std::min((task + 1) * rows_of_task, rows); ++row) {
        const StridedRuns::Offsets offsets = rows_.offsets(row / rows_.length());
        const auto place = static_cast<std::int64_t>(row % rows_.length());
        sum_row<Element, Sum>(static_cast<const Element*>(tensors[kInput]) + offsets[1] + place * rows_.stride(1),
                              static_cast<Element*>(tensors[kOutput]) + offsets[0] + place * rows_.stride(0), length);
      }
    });
  }

  template <class Element, class Sum>
  void sum_row(const Element* input, Element* output, std::size_t length) const noexcept {
    Sum total = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const auto place = static_cast<std::int64_t>(backwards_ ? length - 1 - i : i);
      const auto value = static_cast<Sum>(input[place * desc().tensor(kInput).strides[axis_]]);
      const Sum through = i == 0 ? value : total + value;
      output[place * desc().tensor(kOutput).strides[axis_]] = static_cast<Element>(exclusive_ ? total : through);
      total = through;
    }
  }

  std::size_t axis_;
  bool backwards_, exclusive_;
  StridedRuns rows_;  // of the output, of the input
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_cumulative_summation(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CumulativeSummation>(std::move(desc), target);
}

}  // namespace dmlcpu
