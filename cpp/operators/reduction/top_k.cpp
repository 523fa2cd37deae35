// TOP_K: tensors input (8-bit codes, FLOAT32, INT32 or INT64), output value (of its type), output index (INT64), of
// equal sizes but for the axis, along which the outputs have length K, at most the input's; attributes axis,
// axis_direction (0: the smallest elements, in ascending order; 1: the largest, in descending order). Of equal elements
// the one that comes first counts first; NaN is more than all numbers. Of graphs alone; DirectML's DML_TOP_K.
//
// A row is read once. The best K so far are a heap with the worst of them in front, which what follows is compared
// with: of rows in no particular order few elements enter it. At the end it is sorted.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strided_runs.h"
#include "runtime/cache_line.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kValue, kIndex };

template <class Element>
struct Candidate {
  Element value;
  std::int32_t place;
};

// Whether a value counts before one that comes before it in the row.
template <bool largest, class Element>
inline bool wins(Element later, Element earlier) noexcept {
  const bool is_better = largest ? later > earlier : later < earlier;
  if constexpr (std::is_floating_point_v<Element>) {
    return is_better || (std::isnan(largest ? later : earlier) && !std::isnan(largest ? earlier : later));
  }
  return is_better;
}

template <bool largest, class Element>
inline bool before(const Candidate<Element>& a, const Candidate<Element>& b) noexcept {
  if (a.place == b.place) return false;
  return a.place > b.place ? wins<largest>(a.value, b.value) : !wins<largest>(b.value, a.value);
}

class TopK final : public CompiledOperator {
 public:
  TopK(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        largest_(index_attribute(desc(), "axis_direction", 2) == 1),
        rows_(row_runs()),
        length_(as_size(desc().tensor(kInput).sizes[axis_])),
        count_(as_size(desc().tensor(kValue).sizes[axis_])) {
    if (desc().tensor(kInput).type != desc().tensor(kValue).type) {
      throw std::invalid_argument(desc().type + ": input and values differ in data type");
    }
    if (count_ > length_ || length_ > as_size(std::numeric_limits<std::int32_t>::max())) {
      throw std::invalid_argument(desc().type + ": the axis is shorter than K, or longer than INT32 counts");
    }
    if (desc().tensor(kIndex).sizes[axis_] != desc().tensor(kValue).sizes[axis_]) {
      throw std::invalid_argument(desc().type + ": values and indices differ in sizes");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(row_count()) + " rows of " + std::to_string(length_) +
           ", each by a heap of " + std::to_string(count_) + "\n" +
           tasks_line(static_cast<std::int64_t>(task_count()), participants());
  }

  std::size_t temporary_size() const override { return heap_size() * as_size(participants()); }

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
  // The first elements of the rows: of the values, the indices, the input.
  StridedRuns row_runs() const {
    TensorLayout input = desc().tensor(kInput), value = desc().tensor(kValue), index = desc().tensor(kIndex);
    if (value.rank != input.rank || index.rank != input.rank) {
      throw std::invalid_argument(desc().type + ": input and outputs differ in rank");
    }
    input.sizes[axis_] = value.sizes[axis_] = index.sizes[axis_] = 1;
    return StridedRuns(std::array<const TensorLayout*, 3>{&value, &index, &input});
  }

  std::size_t row_count() const { return rows_.count() * rows_.length(); }
  std::size_t rows_of_task() const { return std::max<std::size_t>(StridedRuns::kElementsPerTask / length_, 1); }
  std::size_t task_count() const { return (row_count() + rows_of_task() - 1) / rows_of_task(); }
  int participants() const {
    return static_cast<int>(std::min(task_count(), static_cast<std::size_t>(target().num_threads)));
  }
  // Of the widest element, in whole cache lines.
  std::size_t heap_size() const { return round_up(count_ * sizeof(Candidate<std::int64_t>), kCacheLine); }

  template <class Element>
  void find(const TensorPointers& tensors) const {
    largest_ ? find<true, Element>(tensors) : find<false, Element>(tensors);
  }

  template <bool largest, class Element>
  void find(const TensorPointers& tensors) const {
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(task_count(), participants(), [&](std::size_t task, int slot) noexcept {
      auto* heap = reinterpret_cast<Candidate<Element>*>(scratch + as_size(slot) * heap_size());
      const std::size_t end = std::min((task + 1) * rows_of_task(), row_count());
      for (std::size_t row = task * rows_of_task(); row < end; ++row) {
        const StridedRuns::Offsets offsets = rows_.offsets(row / rows_.length());
        const auto place = static_cast<std::int64_t>(row % rows_.length());
        fill_heap<largest>(static_cast<const Element*>(tensors[kInput]) + offsets[2] + place * rows_.stride(2), heap);
        write_heap(heap, static_cast<Element*>(tensors[kValue]) + offsets[0] + place * rows_.stride(0),
                   static_cast<std::int64_t*>(tensors[kIndex]) + offsets[1] + place * rows_.stride(1));
      }
    });
  }

  // Leaves the best elements of a row in their order.
  template <bool largest, class Element>
  void fill_heap(const Element* row, Candidate<Element>* heap) const noexcept {
    const std::int64_t step = desc().tensor(kInput).strides[axis_];
    const auto compare = [](const Candidate<Element>& a, const Candidate<Element>& b) noexcept {
      return before<largest>(a, b);
    };
    Candidate<Element>* const end = heap + count_;
    for (std::size_t i = 0; i < count_; ++i) {
      heap[i] = {row[static_cast<std::int64_t>(i) * step], static_cast<std::int32_t>(i)};
    }
    std::make_heap(heap, end, compare);
    for (std::size_t i = count_; i < length_; ++i) {
      const Element value = row[static_cast<std::int64_t>(i) * step];
      if (!wins<largest>(value, heap->value)) continue;
      std::pop_heap(heap, end, compare);
      end[-1] = {value, static_cast<std::int32_t>(i)};
      std::push_heap(heap, end, compare);
    }
    std::sort_heap(heap, end, compare);
  }

  template <class Element>
  void write_heap(const Candidate<Element>* heap, Element* values, std::int64_t* indices) const noexcept {
    const std::int64_t value_step = desc().tensor(kValue).strides[axis_];
    const std::int64_t index_step = desc().tensor(kIndex).strides[axis_];
    for (std::size_t i = 0; i < count_; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      values[place * value_step] = heap[i].value;
      indices[place * index_step] = heap[i].place;
    }
  }

  std::size_t axis_;
  bool largest_;
  StridedRuns rows_;
  std::size_t length_, count_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_top_k(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<TopK>(std::move(desc), target);
}

}  // namespace dmlcpu
