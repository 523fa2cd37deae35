#include "operators/strides/strided_runs.h"

#include <algorithm>
#include <stdexcept>

#include "operators/plan_words.h"
#include "operators/task_size.h"

namespace dmlcpu {
namespace {

// Moves the axis along which an operand's elements are neighbours next to the innermost, for the first operand that has
// them elsewhere.
void bring_neighbours_forward(std::span<StridedAxis> axes, std::size_t operands) {
  for (std::size_t operand = 0; operand < operands; ++operand) {
    const std::int64_t innermost = axes[0].strides[operand];
    if (innermost == 0 || innermost == 1) continue;
    for (std::size_t axis = 1; axis < axes.size(); ++axis) {
      if (axes[axis].strides[operand] != 1) continue;
      std::rotate(axes.begin() + 1, axes.begin() + static_cast<std::ptrdiff_t>(axis),
                  axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      return;
    }
  }
}

}  // namespace

StridedRuns::StridedRuns(std::span<const TensorLayout* const> operands, std::size_t decider) {
  const TensorLayout& first = *operands[0];
  std::array<StridedAxis, kMaxRank> axes{};
  std::size_t count = 0;
  for (std::size_t axis = first.rank; axis-- > 0;) {
    StridedAxis& entry = axes[count++];
    entry.size = first.sizes[axis];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      if (operands[i]->rank != first.rank || operands[i]->sizes[axis] != first.sizes[axis]) {
        throw std::invalid_argument("tensors of an element-wise operator differ in sizes");
      }
      entry.strides[i] = operands[i]->strides[axis];
    }
  }
  rank_ = order_and_join(std::span(axes).first(count), decider);
  bring_neighbours_forward(std::span(axes).first(rank_), operands.size());
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    sizes_[axis] = axes[axis].size;
    strides_[axis] = axes[axis].strides;
    if (axis > 0) count_ *= static_cast<std::size_t>(axes[axis].size);
  }
}

StridedRuns::Offsets StridedRuns::offsets(std::size_t run) const {
  Offsets offsets{};
  for (std::size_t axis = 1; axis < rank_; ++axis) {
    const auto size = static_cast<std::size_t>(sizes_[axis]);
    const auto index = static_cast<std::int64_t>(run % size);
    run /= size;
    for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += index * strides_[axis][i];
  }
  return offsets;
}

StridedRuns::Offsets StridedRuns::offsets_at(std::size_t run, std::size_t column) const {
  Offsets offsets = this->offsets(run);
  for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += static_cast<std::int64_t>(column) * stride(i);
  return offsets;
}

// Whether an operand's elements may be neighbours across rows.
bool StridedRuns::crossed() const { return rank_ > 1 && (apart(0) || apart(1) || apart(2) || apart(3)); }

// Runs that one task may take together: of a plane where an operand is crossed, so that its cache lines are not shared
// out among tasks, else all.
std::size_t StridedRuns::rows_together() const { return crossed() ? rows() : count_; }

StridedRuns::Tasks::Tasks(const StridedRuns& runs, int num_threads)
    : length_(runs.length()), together_(runs.rows_together()) {
  constexpr std::size_t kRows = 256, kColumns = 64;  // at least so many of a plane where there are
  const std::size_t elements = elements_of_task(runs.elements(), num_threads);
  if (!runs.crossed()) {
    columns_ = std::min(length_, elements);
    rows_ = std::max<std::size_t>(elements / columns_, 1);
  } else {
    rows_ = std::min(together_, kRows);
    columns_ = std::min(length_, round_up(elements / rows_, kColumns));
  }
  down_ = (together_ + rows_ - 1) / rows_;
  across_ = (length_ + columns_ - 1) / columns_;
  count_ = runs.count() / together_ * down_ * across_;
}

StridedRuns::Piece StridedRuns::Tasks::piece(std::size_t task) const {
  const std::size_t begin = task % across_ * columns_, row = task / across_ % down_ * rows_;
  return {task / across_ / down_ * together_ + row, std::min(rows_, together_ - row), begin,
          std::min(columns_, length_ - begin)};
}

std::string StridedRuns::describe(int num_threads) const {
  return "runs: " + std::to_string(count_) + " of " + std::to_string(length()) +
         " elements (neighbouring axes joined where every tensor allows)\n" +
         tasks_line(static_cast<std::int64_t>(tasks(num_threads).count()), num_threads,
                    "about " + std::to_string(elements_of_task(elements(), num_threads)) + " elements");
}

}  // namespace dmlcpu
