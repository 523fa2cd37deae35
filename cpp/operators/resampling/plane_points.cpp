#include "operators/resampling/plane_points.h"

#include <algorithm>
#include <cstring>

#include "operators/resampling/grid_places.h"

namespace dmlcpu {
namespace {

void split_places(const float* places, std::size_t count, std::int32_t* whole, float* distance) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    whole[i] = whole_of(places[i]);
    distance[i] = beyond(places[i], whole[i]);
  }
}

std::int32_t within(std::int32_t number, std::int32_t last) noexcept {
  return number < 0 ? 0 : number < last ? number : last;
}

}  // namespace

bool PlanePoints::takes(std::int64_t height, std::int64_t width, std::int64_t row_stride, std::int64_t column_stride) {
  return width >= 2 && column_stride == 1 && row_stride >= 0 && height * std::max(row_stride, width) < INT32_MAX;
}

void PlanePoints::find(const PlaneSizes& sizes, const float* x, const float* y, std::size_t count,
                       bool border) noexcept {
  count_ = count;
  split_places(x, count, left_, across_);
  split_places(y, count, top_, down_);
  const std::int32_t last_row = sizes.height - 1, last_pair = sizes.width - 2;
  const auto row_stride = static_cast<std::int32_t>(sizes.row_stride);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t column = within(left_[i], last_pair);
    upper_[i] = within(top_[i], last_row) * row_stride + column;
    lower_[i] = within(top_[i] + 1, last_row) * row_stride + column;
  }
  // Where the border is repeated, rows have been brought within the plane.
  list_edges(border ? UINT32_MAX : static_cast<std::uint32_t>(sizes.height - 1),
             static_cast<std::uint32_t>(sizes.width - 1));
  find_edge_pixels(sizes, border);
}

void PlanePoints::find_nearest(const PlaneSizes& sizes, const float* x, const float* y, std::size_t count) noexcept {
  count_ = count;
  const std::int32_t last_row = sizes.height - 1, last_column = sizes.width - 1;
  const auto row_stride = static_cast<std::int32_t>(sizes.row_stride);
  for (std::size_t i = 0; i < count; ++i) {
    left_[i] = static_cast<std::int32_t>(x[i]);
    top_[i] = static_cast<std::int32_t>(y[i]);
    upper_[i] = within(top_[i], last_row) * row_stride + within(left_[i], last_column);
  }
  list_edges(static_cast<std::uint32_t>(sizes.height), static_cast<std::uint32_t>(sizes.width));
}

void PlanePoints::list_edges(std::uint32_t rows, std::uint32_t columns) noexcept {
  edge_count_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    edges_[edge_count_] = static_cast<std::int32_t>(i);
    const auto left = static_cast<std::uint32_t>(left_[i]), top = static_cast<std::uint32_t>(top_[i]);
    edge_count_ += static_cast<std::size_t>(left >= columns) | static_cast<std::size_t>(top >= rows);
  }
}

void PlanePoints::find_edge_pixels(const PlaneSizes& sizes, bool border) noexcept {
  const auto row_stride = static_cast<std::int32_t>(sizes.row_stride);
  for (std::size_t edge = 0; edge < edge_count_; ++edge) {
    const auto point = static_cast<std::size_t>(edges_[edge]);
    for (std::int32_t pixel = 0; pixel < 4; ++pixel) {
      std::int32_t row = top_[point] + pixel / 2, column = left_[point] + pixel % 2;
      if (border) row = std::min(row, sizes.height - 1), column = std::min(column, sizes.width - 1);
      const bool is_inside = row >= 0 && row < sizes.height && column >= 0 && column < sizes.width;
      edge_pixels_[edge][pixel] = is_inside ? row * row_stride + column : kOutside;
    }
  }
}

void PlanePoints::interpolate(const float* plane, float* output) const noexcept {
  float upper[2 * kMost], lower[2 * kMost];
  for (std::size_t i = 0; i < count_; ++i) {
    std::memcpy(upper + 2 * i, plane + upper_[i], 2 * sizeof(float));
    std::memcpy(lower + 2 * i, plane + lower_[i], 2 * sizeof(float));
  }
  for (std::size_t edge = 0; edge < edge_count_; ++edge) {
    const auto point = static_cast<std::size_t>(edges_[edge]);
    const std::int32_t* const pixels = edge_pixels_[edge];
    for (std::size_t u = 0; u < 2; ++u) {
      upper[2 * point + u] = pixels[u] == kOutside ? 0.0F : plane[pixels[u]];
      lower[2 * point + u] = pixels[2 + u] == kOutside ? 0.0F : plane[pixels[2 + u]];
    }
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const float u = across_[i], v = down_[i], other_u = 1.0F - u, other_v = 1.0F - v;
    output[i] =
        other_v * (other_u * upper[2 * i] + u * upper[2 * i + 1]) + v * (other_u * lower[2 * i] + u * lower[2 * i + 1]);
  }
}

void PlanePoints::look_up(const float* plane, float* output) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) output[i] = plane[upper_[i]];
  for (std::size_t edge = 0; edge < edge_count_; ++edge) output[edges_[edge]] = 0;
}

}  // namespace dmlcpu
