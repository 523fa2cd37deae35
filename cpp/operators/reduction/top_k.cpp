// TOP_K: tensors input (8-bit codes, FLOAT32, INT32 or INT64), output value (of its type), output index (INT64), of
// equal sizes but for the axis, along which the outputs have length K, at most the input's; attributes axis,
// axis_direction (0: the smallest elements, in ascending order; 1: the largest, in descending order). Of equal elements
// the one that comes first counts first; NaN is more than all numbers. Of graphs alone; DirectML's DML_TOP_K.
//
// Of few elements a row is read once: the best K so far are a heap with the worst of them in front, which what follows
// is compared with: of rows in no particular order few elements enter it. At the end it is sorted. Where K is a large
// part of a row, all of that is sorted: by digits, where an element and its place are 64 bits together.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "operators/attributes.h"
#include "operators/element_types.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
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

// Unsigned integers in the order in which elements of up to 32 bits count.
template <bool largest, class Element>
inline std::uint32_t order_key(Element value) noexcept {
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  std::uint32_t ascending;
  if constexpr (std::is_floating_point_v<Element>) {
    const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // both zeros are the same
    ascending = std::isnan(value) ? ~std::uint32_t{0} : bits ^ ((bits & kSign) != 0 ? ~std::uint32_t{0} : kSign);
  } else {
    ascending = static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) ^ kSign;
  }
  return largest ? ~ascending : ascending;
}

// Sorts count integers by their upper halves, equal ones as they stand; others has room for as many. Returns the one of
// the two that has the result. A digit that all have in common takes no pass.
inline std::uint64_t* sort_by_upper_half(std::uint64_t* numbers, std::uint64_t* others, std::size_t count) noexcept {
  constexpr std::size_t kDigits = 4, kValues = 256;
  std::uint32_t begins[kDigits][kValues] = {};
  const auto digit_of = [](std::uint64_t number, std::size_t digit) { return (number >> (32 + 8 * digit)) & 0xff; };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t digit = 0; digit < kDigits; ++digit) ++begins[digit][digit_of(numbers[i], digit)];
  }
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    std::uint32_t* begin = begins[digit];
    if (begin[digit_of(numbers[0], digit)] == count) continue;
    std::exclusive_scan(begin, begin + kValues, begin, std::uint32_t{0});
    for (std::size_t i = 0; i < count; ++i) others[begin[digit_of(numbers[i], digit)]++] = numbers[i];
    std::swap(numbers, others);
  }
  return numbers;
}

// Leaves out, of a row's numbers, those that come after all of the first K; returns how many are left. In a row in
// order these are the rest; where the last element is none of them, as of most rows in no order, it is not tried.
template <class Number, class Before>
inline std::size_t leave_out_worse(Number* numbers, std::size_t count, std::size_t length, Before before) noexcept {
  if (count == length) return length;
  const Number worst = *std::max_element(numbers, numbers + count, before);
  if (before(numbers[length - 1], worst)) return length;
  const auto is_worse = [&](const Number& number) { return before(worst, number); };
  return static_cast<std::size_t>(std::remove_if(numbers + count, numbers + length, is_worse) - numbers);
}

class TopK final : public CompiledOperator {
 public:
  TopK(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
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
           (sorts() ? ", each sorted" : ", each by a heap of " + std::to_string(count_)) + "\n" +
           tasks_line(static_cast<std::int64_t>(task_count()), participants());
  }

  std::size_t temporary_size() const override { return candidates_size() * as_size(participants()); }

 protected:
  void run(const TensorPointers& tensors) const override {
    with_element_of_type<std::uint8_t, std::int8_t, std::int32_t, std::int64_t, float>(
        desc().tensor(kInput).type, [&]<class Element>(Element) { find<Element>(tensors); });
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
  std::size_t rows_of_task() const {
    return dmlcpu::rows_of_task(static_cast<double>(row_count()), static_cast<double>(length_), target().num_threads);
  }
  std::size_t task_count() const { return (row_count() + rows_of_task() - 1) / rows_of_task(); }
  int participants() const {
    return static_cast<int>(std::min(task_count(), static_cast<std::size_t>(target().num_threads)));
  }
  // Whether fewer elements stay out of a heap than would pay for it.
  bool sorts() const {
    constexpr std::size_t kLargePart = 16, kFewest = 32;
    return count_ >= kFewest && count_ >= length_ / kLargePart;
  }
  // Of the widest element, or two of the integers that are sorted, in whole cache lines.
  std::size_t candidates_size() const {
    static_assert(sizeof(Candidate<std::int64_t>) == 2 * sizeof(std::uint64_t));
    return round_up((sorts() ? length_ : count_) * sizeof(Candidate<std::int64_t>), kCacheLine);
  }

  template <class Element>
  void find(const TensorPointers& tensors) const {
    largest_ ? find<true, Element>(tensors) : find<false, Element>(tensors);
  }

  template <bool largest, class Element>
  void find(const TensorPointers& tensors) const {
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(task_count(), participants(), [&](std::size_t task, int slot) noexcept {
      std::uint8_t* candidates = scratch + as_size(slot) * candidates_size();
      const std::size_t end = std::min((task + 1) * rows_of_task(), row_count());
      for (std::size_t row = task * rows_of_task(); row < end; ++row) {
        const StridedRuns::Offsets offsets = rows_.offsets(row / rows_.length());
        const auto place = static_cast<std::int64_t>(row % rows_.length());
        const Element* input = static_cast<const Element*>(tensors[kInput]) + offsets[2] + place * rows_.stride(2);
        Element* values = static_cast<Element*>(tensors[kValue]) + offsets[0] + place * rows_.stride(0);
        auto* indices = static_cast<std::int64_t*>(tensors[kIndex]) + offsets[1] + place * rows_.stride(1);
        if constexpr (sizeof(Element) <= sizeof(std::uint32_t)) {
          if (sorts()) {
            sort_keys<largest>(input, reinterpret_cast<std::uint64_t*>(candidates), values, indices);
            continue;
          }
        }
        auto* best = reinterpret_cast<Candidate<Element>*>(candidates);
        sorts() ? sort_row<largest>(input, best) : fill_heap<largest>(input, best);
        write_best(best, values, indices);
      }
    });
  }

  // The best elements of a row in their order, by their keys before their places.
  template <bool largest, class Element>
  void sort_keys(const Element* row, std::uint64_t* numbers, Element* values, std::int64_t* indices) const noexcept {
    const std::int64_t step = desc().tensor(kInput).strides[axis_];
    const std::int64_t value_step = desc().tensor(kValue).strides[axis_];
    const std::int64_t index_step = desc().tensor(kIndex).strides[axis_];
    for (std::size_t i = 0; i < length_; ++i) {
      numbers[i] = std::uint64_t{order_key<largest>(row[static_cast<std::int64_t>(i) * step])} << 32 | i;
    }
    const std::size_t kept = leave_out_worse(numbers, count_, length_, std::less<>());
    const std::uint64_t* sorted = sort_by_upper_half(numbers, numbers + length_, kept);
    for (std::size_t i = 0; i < count_; ++i) {
      const auto place = static_cast<std::int64_t>(i), found = static_cast<std::int64_t>(sorted[i] & 0xffffffff);
      values[place * value_step] = row[found * step];
      indices[place * index_step] = found;
    }
  }

  // Leaves the best elements of a row in their order.
  template <bool largest, class Element>
  void sort_row(const Element* row, Candidate<Element>* candidates) const noexcept {
    const std::int64_t step = desc().tensor(kInput).strides[axis_];
    for (std::size_t i = 0; i < length_; ++i) {
      candidates[i] = {row[static_cast<std::int64_t>(i) * step], static_cast<std::int32_t>(i)};
    }
    const auto compare = [](const Candidate<Element>& a, const Candidate<Element>& b) noexcept {
      return before<largest>(a, b);
    };
    const std::size_t kept = leave_out_worse(candidates, count_, length_, compare);
    if (count_ < kept) std::nth_element(candidates, candidates + count_, candidates + kept, compare);
    std::sort(candidates, candidates + count_, compare);
  }

  // The same of few.
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
  void write_best(const Candidate<Element>* best, Element* values, std::int64_t* indices) const noexcept {
    const std::int64_t value_step = desc().tensor(kValue).strides[axis_];
    const std::int64_t index_step = desc().tensor(kIndex).strides[axis_];
    for (std::size_t i = 0; i < count_; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      values[place * value_step] = best[i].value;
      indices[place * index_step] = best[i].place;
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
