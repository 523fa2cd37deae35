#include "graph/strides.h"

#include <array>
#include <numeric>

namespace dmlcpu {

Extents packed_strides(const TensorLayout& layout, std::span<const std::size_t> order) {
  Extents strides{};
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= layout.sizes[order[i]];
  }
  return strides;
}

Extents row_major_strides(const TensorLayout& layout) {
  std::array<std::size_t, kMaxRank> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  return packed_strides(layout, std::span(order).first(layout.rank));
}

Extents channels_last_strides(const TensorLayout& layout) {
  if (layout.rank < 3) return row_major_strides(layout);
  std::array<std::size_t, kMaxRank> order{};
  std::iota(order.begin() + 1, order.end(), std::size_t{2});
  order[layout.rank - 1] = 1;
  return packed_strides(layout, std::span(order).first(layout.rank));
}

bool same_strides(const TensorLayout& layout, const Extents& strides) {
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (layout.sizes[axis] > 1 && layout.strides[axis] != strides[axis]) return false;
  }
  return true;
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
