#include "operators/strided_runs.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "operators/strided_axes.h"

namespace dmlcpu {

StridedRuns::StridedRuns(std::span<const TensorLayout* const> operands) {
  const TensorLayout& first = *operands[0];
  std::array<StridedAxis, kMaxRank> axes{};
  std::size_t rank = 0;
  for (std::size_t axis = first.rank; axis-- > 0;) {
    StridedAxis entry{first.sizes[axis], {}};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      if (operands[i]->rank != first.rank || operands[i]->sizes[axis] != first.sizes[axis]) {
        throw std::invalid_argument("tensors of an element-wise operator differ in sizes");
      }
      entry.strides[i] = operands[i]->strides[axis];
    }
    axes[rank++] = entry;
  }
  rank_ = order_and_join(std::span(axes).first(rank));
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

std::size_t StridedRuns::task_count() const {
  if (length() >= kElementsPerTask) return count_ * pieces_of_run();
  const std::size_t runs = kElementsPerTask / length();
  return (count_ + runs - 1) / runs;
}

std::size_t StridedRuns::pieces_of_run() const { return (length() + kElementsPerTask - 1) / kElementsPerTask; }

StridedRuns::Piece StridedRuns::piece(std::size_t task) const {
  if (length() >= kElementsPerTask) {
    const std::size_t begin = task % pieces_of_run() * kElementsPerTask;
    return {task / pieces_of_run(), 1, begin, std::min(kElementsPerTask, length() - begin)};
  }
  const std::size_t runs = kElementsPerTask / length();
  const std::size_t first = task * runs;
  return {first, std::min(runs, count_ - first), 0, length()};
}

std::string StridedRuns::describe(int num_threads) const {
  const std::size_t threads = std::min(task_count(), static_cast<std::size_t>(num_threads));
  return "runs: " + std::to_string(count_) + " of " + std::to_string(length()) +
         " elements (neighbouring axes joined where every tensor allows)\ntasks: " + std::to_string(task_count()) +
         " of about " + std::to_string(kElementsPerTask) + " elements, on " + std::to_string(threads) + " threads";
}

}  // namespace dmlcpu
