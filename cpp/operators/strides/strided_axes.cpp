#include "operators/strides/strided_axes.h"

#include <algorithm>

namespace dmlcpu {
namespace {

// The inner axis of the two continues into the outer one, in every operand.
bool joins(const StridedAxis& inner, const StridedAxis& outer) {
  for (std::size_t i = 0; i < kMaxOperands; ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.size) return false;
  }
  return true;
}

// A stable sort that takes no memory, which std::stable_sort does (by std::get_temporary_buffer, deprecated).
template <class Iterator, class Less>
void insertion_sort(Iterator first, Iterator last, Less less) {
  for (Iterator next = first; next != last; ++next) {
    std::rotate(std::upper_bound(first, next, *next, less), next, next + 1);
  }
}

}  // namespace

std::size_t order_and_join(std::span<StridedAxis> axes, std::size_t decider) {
  const auto end = std::remove_if(axes.begin(), axes.end(), [](const StridedAxis& axis) { return axis.size == 1; });
  if (end == axes.begin()) {
    axes[0] = {1, {}};
    return 1;
  }
  insertion_sort(axes.begin(), end,
                 [&](const StridedAxis& x, const StridedAxis& y) { return x.strides[decider] < y.strides[decider]; });
  auto joined = axes.begin();
  for (auto axis = joined + 1; axis != end; ++axis) {
    if (joins(*joined, *axis)) {
      joined->size *= axis->size;
    } else {
      *++joined = *axis;
    }
  }
  return static_cast<std::size_t>(joined - axes.begin()) + 1;
}

}  // namespace dmlcpu
