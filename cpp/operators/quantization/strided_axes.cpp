#include "operators/quantization/strided_axes.h"

#include <algorithm>

#include "operators/insertion_sort.h"

namespace dmlcpu {
namespace {

// The inner axis of the two continues into the outer one, in every operand.
bool joins(const StridedAxis& inner, const StridedAxis& outer) {
  for (std::size_t i = 0; i < kMaxOperands; ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.size) return false;
  }
  return true;
}

}  // namespace

std::size_t order_and_join(std::span<StridedAxis> axes) {
  const auto end = std::remove_if(axes.begin(), axes.end(), [](const StridedAxis& axis) { return axis.size == 1; });
  if (end == axes.begin()) {
    axes[0] = {1, {}};
    return 1;
  }
  insertion_sort(axes.begin(), end,
                 [](const StridedAxis& x, const StridedAxis& y) { return x.strides[0] < y.strides[0]; });
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
