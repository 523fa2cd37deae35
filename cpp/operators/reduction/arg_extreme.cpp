// ARGMAX and ARGMIN: tensors input (8-bit codes, FLOAT32, INT32 or INT64), output (INT64), of equal sizes but for the
// axis, along which the output has length 1; attributes axis, axis_direction (of equal elements 0: the first, 1: the
// last counts). The output is the place of the largest or smallest element along the axis. A NaN is neither, unless it
// is met first. Of graphs alone.
//
// Loops are such that the compiler makes vectors of them. Many rows are walked together, an element of each at a time;
// short rows that lie one behind the other are transposed first. A long one is searched by itself: for its extreme, in
// lanes, then for the extreme's place.
#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/element_types.h"
#include "operators/operator.h"
#include "operators/reduction/row_extreme.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// Positions whose extremes are sought together, so that what lies beside an element in memory is read with it.
constexpr std::size_t kTogether = 256;
// Bytes from which on a row of neighbours is searched by itself.
constexpr std::size_t kLongBytes = 256;
static_assert(kChunkBytes >= kLongBytes && kLongBytes <= 256);

class ArgExtreme final : public CompiledOperator {
 public:
  ArgExtreme(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
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
    const std::string algorithm = single() ? "row by row" : std::to_string(rows_together()) + " rows together";
    return "algorithm: " + algorithm + (transposed() ? ", transposed\n" : "\n") +
           positions_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    with_element_of_type<std::uint8_t, std::int8_t, std::int32_t, std::int64_t, float>(
        desc().tensor(kInput).type, [&]<class Element>(Element) { find<Element>(tensors); });
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
    const StridedRuns::Tasks tasks = positions_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      for (std::size_t run = piece.first_run; run < piece.first_run + piece.run_count; ++run) {
        const StridedRuns::Offsets offsets = positions_.offsets(run);
        for (std::size_t begin = piece.begin; begin < piece.begin + piece.size; begin += rows_together()) {
          const auto first = static_cast<std::int64_t>(begin);
          find_block(static_cast<const Element*>(tensors[kInput]) + offsets[1] + first * positions_.stride(1),
                     static_cast<std::int64_t*>(tensors[kOutput]) + offsets[0] + first * positions_.stride(0),
                     std::min(rows_together(), piece.begin + piece.size - begin), wins);
        }
      }
    });
  }

  template <class Element, class Wins>
  void find_block(const Element* input, std::int64_t* output, std::size_t count, const Wins& wins) const noexcept {
    if (single()) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = static_cast<std::int64_t>(i);
        const Element* elements = input + row * positions_.stride(1);
        output[row * positions_.stride(0)] =
            static_cast<std::int64_t>(place_of_extreme(elements, length(), wins, last_));
      }
    } else if (transposed()) {
      find_transposed(input, output, count, wins);
    } else {
      find_together(input, output, count, wins);
    }
  }

  // Rows of neighbours, of which none is a run of neighbours of other rows.
  bool apart() const { return desc().tensor(kInput).strides[axis_] == 1 && positions_.stride(1) != 1; }
  bool single() const { return apart() && length() * element_size(desc().tensor(kInput).type) >= kLongBytes; }
  bool transposed() const { return apart() && !single(); }
  std::size_t length() const { return as_size(desc().tensor(kInput).sizes[axis_]); }
  std::size_t rows_together() const {
    const std::size_t row_bytes = length() * element_size(desc().tensor(kInput).type);
    return transposed() ? std::min(kTogether, kChunkBytes / row_bytes) : kTogether;
  }

  // Places are as wide as elements, so that both fill vectors alike: a row has fewer than kLongBytes elements.
  template <class Element, class Wins>
  void find_transposed(const Element* input, std::int64_t* output, std::size_t count, const Wins& wins) const noexcept {
    using Place = BitsOf<Element>;
    ChunkBuffer buffer;
    const auto* elements = static_cast<const Element*>(gather(input, desc().tensor(kInput).type,
                                                              {length(), count, 1, positions_.stride(1)},
                                                              *target().kernels().pack, buffer));
    Element best[kTogether];
    Place places[kTogether];
    std::copy_n(elements, count, best);
    std::fill_n(places, count, Place{0});
    for (std::size_t place = 1; place < length(); ++place) {
      take_winners(elements + place * count, count, static_cast<Place>(place), best, places, wins);
    }
    for (std::size_t i = 0; i < count; ++i) {
      output[static_cast<std::int64_t>(i) * positions_.stride(0)] = static_cast<std::int64_t>(places[i]);
    }
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
      if (std::is_floating_point_v<Element> && step == 1) {
        take_winners(values, count, place, best, places, wins);
        continue;
      }
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
