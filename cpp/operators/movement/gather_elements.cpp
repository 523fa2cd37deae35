// GATHER_ELEMENTS: tensors input, indices (INT32 or INT64), output; attribute axis. Indices and output have equal
// sizes, the input sizes no smaller but along the axis: element i of the output is the input's at i, along the axis at
// what index i names. Of graphs alone.
//
// An index below 0 counts from the axis's end. One out of range throws std::out_of_range at a dispatch; nothing beyond
// the input is read for it. A task reads each once: the array may change under the hands of a dispatch.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/movement/axis_indices.h"
#include "operators/operator.h"
#include "operators/strides/element_width.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kIndices, kOutput };

class GatherElements final : public CompiledOperator {
 public:
  GatherElements(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        runs_(element_runs()) {
    check_taken(desc(), desc().tensor(kInput), desc().tensor(kOutput));
  }

  std::string describe() const override {
    return "algorithm: one pass, element by element\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    with_element_of(element_size(desc().tensor(kOutput).type),
                    [&]<class Element>(Element) { run_elements<Element>(tensors); });
  }

 private:
  // Of output, indices, and the first elements of the input along the axis.
  StridedRuns element_runs() const {
    const TensorLayout& output = desc().tensor(kOutput);
    TensorLayout input = desc().tensor(kInput);
    for (std::size_t axis = 0; axis < output.rank; ++axis) {
      if (axis != axis_ && input.sizes[axis] < output.sizes[axis]) {
        throw std::invalid_argument(desc().type + ": the indices are longer than the input along another axis");
      }
      input.sizes[axis] = output.sizes[axis];
    }
    input.strides[axis_] = 0;
    return StridedRuns(std::array<const TensorLayout*, 3>{&output, &desc().tensor(kIndices), &input});
  }

  template <class Element>
  void run_elements(const TensorPointers& tensors) const {
    if (desc().tensor(kIndices).type == DataType::int64) return run_typed<Element, std::int64_t>(tensors);
    run_typed<Element, std::int32_t>(tensors);
  }

  template <class Element, class Index>
  void run_typed(const TensorPointers& tensors) const {
    const AxisIndices chosen(tensors[kIndices], desc().tensor(kIndices).type, desc().tensor(kInput).sizes[axis_]);
    const StridedRuns::Tasks tasks = runs_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      const auto begin = static_cast<std::int64_t>(piece.begin);
      const std::size_t end = piece.first_run + piece.run_count;
      for (std::size_t run = piece.first_run, rows = 0; run < end; run += rows) {
        rows = runs_.rows_from(run, end - run);
        const StridedRuns::Offsets offsets = runs_.offsets(run);
        const auto* input = static_cast<const Element*>(tensors[kInput]) + offsets[2] + begin * runs_.stride(2);
        const auto* indices =
            static_cast<const volatile Index*>(tensors[kIndices]) + offsets[1] + begin * runs_.stride(1);
        auto* output = static_cast<Element*>(tensors[kOutput]) + offsets[0] + begin * runs_.stride(0);
        for (std::size_t i = 0; i < rows; ++i) {
          const auto row = static_cast<std::int64_t>(i);
          gather_run(chosen, input + row * runs_.row_stride(2), indices + row * runs_.row_stride(1),
                     output + row * runs_.row_stride(0), piece.size);
        }
      }
    });
    chosen.check();
  }

  // Where indices point to is found for some before the first is followed, so that many elements, which may be far
  // away, are on their way at once.
  template <class Element, class Index>
  void gather_run(const AxisIndices& chosen, const Element* input, const volatile Index* indices, Element* output,
                  std::size_t count) const noexcept {
    constexpr std::size_t kTogether = 256;
    const std::int64_t output_step = runs_.stride(0), index_step = runs_.stride(1), input_step = runs_.stride(2);
    const std::int64_t along = desc().tensor(kInput).strides[axis_], length = desc().tensor(kInput).sizes[axis_];
    std::int64_t places[kTogether];
    for (std::size_t begin = 0; begin < count; begin += kTogether) {
      const auto together = static_cast<std::int64_t>(std::min(kTogether, count - begin));
      for (std::int64_t i = 0; i < together; ++i) {
        places[i] = i * input_step + chosen.checked(indices[i * index_step], length) * along;
        __builtin_prefetch(input + places[i]);
      }
      for (std::int64_t i = 0; i < together; ++i) output[i * output_step] = input[places[i]];
      input += together * input_step;
      indices += together * index_step;
      output += together * output_step;
    }
  }

  std::size_t axis_;
  StridedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_gather_elements(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<GatherElements>(std::move(desc), target);
}

}  // namespace dmlcpu
