#include "graph/strides.h"

#include <algorithm>

#include "operators/strides/packed_layout.h"

namespace dmlcpu {

Extents channels_last_strides(const TensorLayout& layout) {
  if (layout.rank < 3) return packed(layout).strides;
  const auto rank = static_cast<std::ptrdiff_t>(layout.rank);
  TensorLayout nested = layout;
  std::rotate(nested.sizes.begin() + 1, nested.sizes.begin() + 2, nested.sizes.begin() + rank);
  Extents strides = packed(nested).strides;
  std::rotate(strides.begin() + 1, strides.begin() + rank - 1, strides.begin() + rank);
  return strides;
}

// Axes of length 1 aside, the sizes of both are cut into the shortest stretches of equal products. The tensor's axes of
// a stretch have to be one run of memory, which the other's axes then divide.
std::optional<Extents> reshaped_strides(const TensorLayout& layout, const TensorLayout& reshaped) {
  Extents strides{};
  std::size_t axis = 0, new_axis = 0;
  const auto skip_ones = [](const TensorLayout& of, std::size_t& at) {
    while (at < of.rank && of.sizes[at] == 1) ++at;
  };
  for (skip_ones(layout, axis); axis < layout.rank; skip_ones(layout, axis)) {
    skip_ones(reshaped, new_axis);
    const std::size_t first_new = new_axis;
    std::int64_t product = layout.sizes[axis], new_product = reshaped.sizes[new_axis];
    std::int64_t stride = layout.strides[axis];
    while (product != new_product) {
      if (product > new_product) {
        new_product *= reshaped.sizes[++new_axis];
        continue;
      }
      ++axis;
      skip_ones(layout, axis);
      if (stride != layout.sizes[axis] * layout.strides[axis]) return std::nullopt;
      stride = layout.strides[axis];
      product *= layout.sizes[axis];
    }
    for (std::size_t i = new_axis + 1; i-- > first_new;) {
      strides[i] = stride;
      stride *= reshaped.sizes[i];
    }
    ++axis;
    ++new_axis;
  }
  return strides;
}

}  // namespace dmlcpu
