// SCATTER_ELEMENTS: tensors input, indices, updates, output; attributes axis, reduction. Updates have the sizes of the
// indices, which are no longer than the input but along the axis: the output is the input, into which each update is
// written, along the axis at what its index names. Of several updates of one element, in their order along the axis,
//
//   reduction  0 the last one counts   1 each is added   2 each is a factor   3 the maximum and 4 the minimum count
//
// where the maximum of a and an update u is a > u ? a : u, the minimum a < u ? a : u: where one is NaN, u.
// Sums and products of integers wrap. Reductions are of INT32, INT64 and FLOAT32. Of graphs alone.
//
// An index below 0 counts from the axis's end. One out of range throws std::out_of_range at a dispatch; nothing is
// written for it.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/element_types.h"
#include "operators/movement/axis_indices.h"
#include "operators/operator.h"
#include "operators/strides/element_width.h"
#include "operators/strides/strided_copy.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kIndices, kUpdates, kOutput };
enum class Reduction : std::uint8_t { none, add, multiply, maximum, minimum };
constexpr std::size_t kReductionCount = 5;

// Sums and products of integers in the unsigned type, where they wrap.
template <class Element>
using Wrapping = typename std::conditional_t<std::is_integral_v<Element>, std::make_unsigned<Element>,
                                             std::type_identity<Element>>::type;

template <Reduction reduction, class Element>
inline Element combined(Element a, Element update) noexcept {
  using Number = Wrapping<Element>;
  switch (reduction) {
    case Reduction::none:
      return update;
    case Reduction::add:
      return static_cast<Element>(static_cast<Number>(a) + static_cast<Number>(update));
    case Reduction::multiply:
      return static_cast<Element>(static_cast<Number>(a) * static_cast<Number>(update));
    case Reduction::maximum:
      return a > update ? a : update;
    case Reduction::minimum:
      return a < update ? a : update;
  }
}

class ScatterElements final : public CompiledOperator {
 public:
  ScatterElements(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        reduction_(static_cast<Reduction>(index_attribute(desc(), "reduction", kReductionCount))),
        copy_(desc().tensor(kOutput), desc().tensor(kInput), target()),
        columns_(column_runs()) {
    const DataType type = desc().tensor(kOutput).type;
    if (desc().tensor(kUpdates).type != type) {
      throw std::invalid_argument(desc().type + ": updates and output differ in data type");
    }
    if (reduction_ != Reduction::none && type != DataType::int32 && type != DataType::int64 &&
        type != DataType::float32) {
      throw std::invalid_argument(desc().type + ": reductions are of INT32, INT64 and FLOAT32");
    }
  }

  std::string describe() const override {
    return "algorithm: a copy, then updates along the axis, in their order\n" + columns_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    copy_.run(tensors[kInput], tensors[kOutput]);
    if (reduction_ == Reduction::none) return write(tensors);
    with_element_of_type<std::int32_t, std::int64_t, float>(desc().tensor(kOutput).type,
                                                            [&]<class Element>(Element) { reduce<Element>(tensors); });
  }

 private:
  // What the axis is walked for: first elements of the output, the updates, the indices.
  StridedRuns column_runs() const {
    const TensorLayout &input = desc().tensor(kInput), &given = desc().tensor(kUpdates);
    const std::string& type = desc().type;
    if (input.rank != given.rank || desc().tensor(kIndices).rank != given.rank) {
      throw std::invalid_argument(type + ": input, indices and updates differ in rank");
    }
    TensorLayout output = desc().tensor(kOutput), updates = given, indices = desc().tensor(kIndices);
    for (std::size_t axis = 0; axis < given.rank; ++axis) {
      if (indices.sizes[axis] != given.sizes[axis]) {
        throw std::invalid_argument(type + ": indices and updates differ in sizes");
      }
      if (axis != axis_ && given.sizes[axis] > input.sizes[axis]) {
        throw std::invalid_argument(type + ": the indices are longer than the input along another axis");
      }
      output.sizes[axis] = axis == axis_ ? 1 : given.sizes[axis];
    }
    updates.sizes[axis_] = indices.sizes[axis_] = 1;
    return StridedRuns(std::array<const TensorLayout*, 3>{&output, &updates, &indices});
  }

  void write(const TensorPointers& tensors) const {
    with_element_of(element_size(desc().tensor(kOutput).type),
                    [&]<class Element>(Element) { scatter<Reduction::none, Element>(tensors); });
  }

  template <class Element>
  void reduce(const TensorPointers& tensors) const {
    switch (reduction_) {
      case Reduction::add:
        return scatter<Reduction::add, Element>(tensors);
      case Reduction::multiply:
        return scatter<Reduction::multiply, Element>(tensors);
      case Reduction::maximum:
        return scatter<Reduction::maximum, Element>(tensors);
      default:
        return scatter<Reduction::minimum, Element>(tensors);
    }
  }

  // Columns that lie apart share cache lines with as many as are walked together.
  template <Reduction reduction, class Element>
  void scatter(const TensorPointers& tensors) const {
    constexpr std::size_t kNeighbours = 1024, kApart = 16;
    const AxisIndices chosen(tensors[kIndices], desc().tensor(kIndices).type, desc().tensor(kOutput).sizes[axis_]);
    const std::size_t together = columns_.stride(0) == 1 ? kNeighbours : kApart;
    const StridedRuns::Tasks tasks = columns_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      for (std::size_t run = piece.first_run; run < piece.first_run + piece.run_count; ++run) {
        for (std::size_t begin = 0; begin < piece.size; begin += together) {
          StridedRuns::Offsets offsets = columns_.offsets(run);
          for (std::size_t i = 0; i < 3; ++i) {
            offsets[i] += static_cast<std::int64_t>(piece.begin + begin) * columns_.stride(i);
          }
          scatter_columns<reduction>(chosen, static_cast<Element*>(tensors[kOutput]) + offsets[0],
                                     static_cast<const Element*>(tensors[kUpdates]) + offsets[1], offsets[2],
                                     std::min(together, piece.size - begin));
        }
      }
    });
    chosen.check();
  }

  template <Reduction reduction, class Element>
  void scatter_columns(const AxisIndices& chosen, Element* output, const Element* updates, std::int64_t index,
                       std::size_t count) const noexcept {
    const std::int64_t along = desc().tensor(kOutput).strides[axis_];
    for (std::int64_t i = 0; i < desc().tensor(kUpdates).sizes[axis_]; ++i) {
      if (columns_.stride(2) == 0 || count == 1) {
        const std::int64_t place = chosen.place(index);
        if (place >= 0) update_row<reduction>(output + place * along, updates, count);
      } else {
        for (std::size_t c = 0; c < count; ++c) {
          const auto column = static_cast<std::int64_t>(c);
          const std::int64_t place = chosen.place(index + column * columns_.stride(2));
          if (place < 0) continue;
          Element& element = output[place * along + column * columns_.stride(0)];
          element = combined<reduction>(element, updates[column * columns_.stride(1)]);
        }
      }
      updates += desc().tensor(kUpdates).strides[axis_];
      index += desc().tensor(kIndices).strides[axis_];
    }
  }

  // All of whose columns have one index, as where indices are broadcast to the updates.
  template <Reduction reduction, class Element>
  void update_row(Element* __restrict output, const Element* __restrict updates, std::size_t count) const noexcept {
    const std::int64_t output_step = columns_.stride(0), update_step = columns_.stride(1);
    if (output_step == 1 && update_step == 1) {
      for (std::size_t c = 0; c < count; ++c) output[c] = combined<reduction>(output[c], updates[c]);
      return;
    }
    for (std::size_t c = 0; c < count; ++c) {
      const auto column = static_cast<std::int64_t>(c);
      Element& element = output[column * output_step];
      element = combined<reduction>(element, updates[column * update_step]);
    }
  }

  std::size_t axis_;
  Reduction reduction_;
  StridedCopy copy_;
  StridedRuns columns_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_scatter_elements(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ScatterElements>(std::move(desc), target);
}

}  // namespace dmlcpu
