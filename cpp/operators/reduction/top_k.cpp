// TOP_K: tensors input (8-bit codes, FLOAT32, INT32 or INT64), output value (of its type), output index (INT64), of
// equal sizes but for the axis, along which the outputs have length K, at most the input's; attributes axis,
// axis_direction (0: the smallest elements, in ascending order; 1: the largest, in descending order). Of equal elements
// the one that comes first counts first; NaN is more than all numbers. Of graphs alone; DirectML's DML_TOP_K.
//
// Of few elements a row is gone through once: the best K so far are a heap with the worst of them in front, which what
// follows is compared with: of rows in no particular order few elements enter it. At the end it is sorted. Where K is a
// large part of a row, all of that is sorted: by digits, where an element and its place are 64 bits together.
#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "operators/attributes.h"
#include "operators/element_types.h"
#include "operators/operator.h"
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

// Whether a value counts before one that comes before it in the row.
template <bool largest, class Element>
inline bool wins(Element later, Element earlier) noexcept {
  const bool is_better = largest ? later > earlier : later < earlier;
  if constexpr (std::is_floating_point_v<Element>) {
    return is_better || (std::isnan(largest ? later : earlier) && !std::isnan(largest ? earlier : later));
  }
  return is_better;
}

// The first of a row's elements from one on, up to its end, that counts before the worst of the best ones.
template <bool largest, class Element>
std::size_t next_winner(const Element* row, std::int64_t step, std::size_t from, std::size_t end,
                        Element worst) noexcept {
  while (from < end && !wins<largest>(row[static_cast<std::int64_t>(from) * step], worst)) ++from;
  return from;
}

// Unsigned integers in the ascending order of elements.
template <class Element>
inline auto ascending_key(Element value) noexcept {
  if constexpr (std::is_same_v<Element, std::int64_t>) {
    return static_cast<std::uint64_t>(value) ^ std::uint64_t{1} << 63;
  } else {
    constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
    if constexpr (std::is_floating_point_v<Element>) {
      const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // both zeros are the same
      return std::isnan(value) ? ~std::uint32_t{0} : bits ^ ((bits & kSign) != 0 ? ~std::uint32_t{0} : kSign);
    } else {
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) ^ kSign;
    }
  }
}

// An element's key and its place, which is below 2^31, in one number, of which the lesser counts first: 64 bits of a
// key of 32, else 128.
struct WideNumber {
  std::uint64_t key, place;
  auto operator<=>(const WideNumber&) const = default;
};
inline std::uint64_t number_of(std::uint32_t key, std::size_t place) noexcept {
  return std::uint64_t{key} << 32 | place;
}
inline WideNumber number_of(std::uint64_t key, std::size_t place) noexcept { return {key, place}; }
inline std::int64_t place_of(std::uint64_t number) noexcept { return static_cast<std::int64_t>(number & 0xffffffff); }
inline std::int64_t place_of(WideNumber number) noexcept { return static_cast<std::int64_t>(number.place); }

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
template <class Number>
std::size_t leave_out_worse(Number* numbers, std::size_t count, std::size_t length) noexcept {
  if (count == length) return length;
  const Number worst = *std::max_element(numbers, numbers + count);
  if (numbers[length - 1] < worst) return length;
  const auto is_worse = [&](const Number& number) { return worst < number; };
  return static_cast<std::size_t>(std::remove_if(numbers + count, numbers + length, is_worse) - numbers);
}

// The first K of a row's numbers in their order; behind them all there is room for as many again.
const std::uint64_t* sort_best(std::uint64_t* numbers, std::size_t count, std::size_t length) noexcept {
  return sort_by_upper_half(numbers, numbers + length, leave_out_worse(numbers, count, length));
}

// The same without that room.
const WideNumber* sort_best(WideNumber* numbers, std::size_t count, std::size_t length) noexcept {
  const std::size_t kept = leave_out_worse(numbers, count, length);
  if (count < kept) std::nth_element(numbers, numbers + count, numbers + kept);
  std::sort(numbers, numbers + count);
  return numbers;
}

template <class Number>
void replace_worst(Number* heap, std::size_t count, Number number) noexcept {
  std::pop_heap(heap, heap + count);
  heap[count - 1] = number;
  std::push_heap(heap, heap + count);
}

class TopK final : public CompiledOperator {
 public:
  TopK(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        largest_(index_attribute(desc(), "axis_direction", 2) == 1),
        rows_(row_runs()),
        length_(as_size(desc().tensor(kInput).sizes[axis_])),
        count_(as_size(desc().tensor(kValue).sizes[axis_])),
        input_step_(desc().tensor(kInput).strides[axis_]),
        value_step_(desc().tensor(kValue).strides[axis_]),
        index_step_(desc().tensor(kIndex).strides[axis_]) {
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

  std::size_t temporary_size() const override { return numbers_size() * as_size(participants()); }

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
  std::size_t numbers_size() const {
    static_assert(sizeof(WideNumber) == 2 * sizeof(std::uint64_t));
    return round_up((sorts() ? length_ : count_) * sizeof(WideNumber), kCacheLine);
  }

  template <class Element>
  void find(const TensorPointers& tensors) const {
    using Number = decltype(number_of(ascending_key(Element{}), 0));
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(task_count(), participants(), [&](std::size_t task, int slot) noexcept {
      auto* numbers = reinterpret_cast<Number*>(scratch + as_size(slot) * numbers_size());
      const std::size_t end = std::min((task + 1) * rows_of_task(), row_count());
      for (std::size_t row = task * rows_of_task(); row < end; ++row) {
        const StridedRuns::Offsets offsets = rows_.offsets(row / rows_.length());
        const auto place = static_cast<std::int64_t>(row % rows_.length());
        const Element* input = static_cast<const Element*>(tensors[kInput]) + offsets[2] + place * rows_.stride(2);
        Element* values = static_cast<Element*>(tensors[kValue]) + offsets[0] + place * rows_.stride(0);
        auto* indices = static_cast<std::int64_t*>(tensors[kIndex]) + offsets[1] + place * rows_.stride(1);
        fill(numbers, input, sorts() ? length_ : count_);
        if (!sorts()) find_best(input, numbers);
        write_best(sorts() ? sort_best(numbers, count_, length_) : numbers, input, values, indices);
      }
    });
  }

  template <class Element>
  auto number_at(const Element* row, std::size_t place) const noexcept {
    const auto key = ascending_key(row[static_cast<std::int64_t>(place) * input_step_]);
    return number_of(largest_ ? ~key : key, place);
  }

  // The numbers of the first elements of a row.
  template <class Number, class Element>
  void fill(Number* numbers, const Element* row, std::size_t count) const noexcept {
    for (std::size_t i = 0; i < count; ++i) numbers[i] = number_at(row, i);
  }

  // Of the first K numbers of a row makes those of its best elements, in their order.
  template <class Number, class Element>
  void find_best(const Element* row, Number* heap) const noexcept {
    const std::int64_t step = input_step_;
    std::make_heap(heap, heap + count_);
    Element worst = row[place_of(heap[0]) * step];
    for (std::size_t i = count_;; ++i) {
      i = largest_ ? next_winner<true>(row, step, i, length_, worst) : next_winner<false>(row, step, i, length_, worst);
      if (i == length_) break;
      replace_worst(heap, count_, number_at(row, i));
      // Of a heap of one it is known without a look at what has just been written.
      worst = row[(count_ == 1 ? static_cast<std::int64_t>(i) : place_of(heap[0])) * step];
    }
    std::sort_heap(heap, heap + count_);
  }

  template <class Number, class Element>
  void write_best(const Number* best, const Element* row, Element* values, std::int64_t* indices) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::int64_t place = static_cast<std::int64_t>(i), found = place_of(best[i]);
      values[place * value_step_] = row[found * input_step_];
      indices[place * index_step_] = found;
    }
  }

  std::size_t axis_;
  bool largest_;
  StridedRuns rows_;
  std::size_t length_, count_;
  std::int64_t input_step_, value_step_, index_step_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_top_k(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<TopK>(std::move(desc), target);
}

}  // namespace dmlcpu
