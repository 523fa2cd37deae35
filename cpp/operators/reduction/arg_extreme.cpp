// ARGMAX and ARGMIN: tensors input (8-bit codes, FLOAT32, INT32 or INT64), output (INT64), of equal sizes but for the
// axis, along which the output has length 1; attributes axis, axis_direction (of equal elements 0: the first, 1: the
// last counts). The output is the place of the largest or smallest element along the axis. A NaN is neither, unless it
// is met first. Of graphs alone.
#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// Positions whose extremes are sought together, so that what lies beside an element in memory is read with it.
constexpr std::size_t kTogether = 256;

class ArgExtreme final : public CompiledOperator {
 public:
  ArgExtreme(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        last_(index_attribute(desc(), "axis_direction", 2) == 1),
        largest_(desc().type == "ARGMAX"),
        positions_(position_runs()) {
    if (desc().tensor(kOutput).rank != desc().tensor(kInput).rank || desc().tensor(kOutput).sizes[axis_] != 1) {
      throw std::invalid_argument(desc().type + ": the output has length 1 along the axis");
    }
    if (desc().tensor(kInput).sizes[axis_] > std::numeric_limits<std::int32_t>::max()) {
      throw std::invalid_argument(desc().type + ": the axis is longer than INT32 counts");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(kTogether) + " rows together\n" + positions_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    switch (desc().tensor(kInput).type) {
      case DataType::uint8:
        return find<std::uint8_t>(tensors);
      case DataType::int8:
        return find<std::int8_t>(tensors);
      case DataType::int32:
        return find<std::int32_t>(tensors);
      case DataType::int64:
        return find<std::int64_t>(tensors);
      default:
        return find<float>(tensors);
    }
  }

 private:
  // The first elements of the rows: operand 0 is the output, 1 the input.
  StridedRuns position_runs() const {
    TensorLayout input = desc().tensor(kInput);
    input.sizes[axis_] = 1;
    return StridedRuns(std::array<const TensorLayout*, 2>{&desc().tensor(kOutput), &input});
  }

  template <class Element>
  void find(const TensorPointers& tensors) const {
    if (largest_) {
      last_ ? find<Element>(tensors, std::greater_equal<Element>()) : find<Element>(tensors, std::greater<Element>());
    } else {
      last_ ? find<Element>(tensors, std::less_equal<Element>()) : find<Element>(tensors, std::less<Element>());
    }
  }

  template <class Element, class Wins>
  void find(const TensorPointers& tensors, const Wins& wins) const {
    parallel_for(positions_.task_count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = positions_.piece(task);
      for (std::size_t run = piece.first_run; run < piece.first_run + piece.run_count; ++run) {
        const StridedRuns::Offsets offsets = positions_.offsets(run);
        for (std::size_t begin = piece.begin; begin < piece.begin + piece.size; begin += kTogether) {
          const auto first = static_cast<std::int64_t>(begin);
          find_together(static_cast<const Element*>(tensors[kInput]) + offsets[1] + first * positions_.stride(1),
                        static_cast<std::int64_t*>(tensors[kOutput]) + offsets[0] + first * positions_.stride(0),
                        std::min(kTogether, piece.begin + piece.size - begin), wins);
        }
      }
    });
  }

  template <class Element, class Wins>
  void find_together(const Element* input, std::int64_t* output, std::size_t count, const Wins& wins) const noexcept {
    Element best[kTogether];
    std::int32_t places[kTogether];
    const TensorLayout& layout = desc().tensor(kInput);
    const std::int64_t step = positions_.stride(1);
    for (std::size_t i = 0; i < count; ++i) {
      best[i] = input[static_cast<std::int64_t>(i) * step];
      places[i] = 0;
    }
    for (std::int32_t place = 1; place < static_cast<std::int32_t>(layout.sizes[axis_]); ++place) {
      const Element* values = input + place * layout.strides[axis_];
      for (std::size_t i = 0; i < count; ++i) {
        const Element value = values[static_cast<std::int64_t>(i) * step];
        const bool won = wins(value, best[i]);
        best[i] = won ? value : best[i];
        places[i] = won ? place : places[i];
      }
    }
    for (std::size_t i = 0; i < count; ++i) output[static_cast<std::int64_t>(i) * positions_.stride(0)] = places[i];
  }

  std::size_t axis_;
  bool last_, largest_;
  StridedRuns positions_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_arg_extreme(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ArgExtreme>(std::move(desc), target);
}

}  // namespace dmlcpu
