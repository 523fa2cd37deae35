// Points of an image in planes {H, W}: what GRID_SAMPLE reads where channels are not neighbours. A block of points is
// found once, and looked up in each plane.
//
// The four pixels that a point is between are read two at a time, which are neighbours in memory; what is outside, and
// what the border is repeated in, pixel by pixel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct PlaneSizes {
  std::int32_t height, width;  // width 2 at least
  std::int64_t row_stride;     // of at most 2^31 elements in all
};

class PlanePoints {
 public:
  static constexpr std::size_t kMost = 256;

  static bool takes(std::int64_t height, std::int64_t width, std::int64_t row_stride, std::int64_t column_stride);

  // x and y, of at most kMost points, are from -2 to a pixel beyond the plane; within it if its border is repeated.
  void find(const PlaneSizes& sizes, const float* x, const float* y, std::size_t count, bool border) noexcept;
  // Of whole x and y.
  void find_nearest(const PlaneSizes& sizes, const float* x, const float* y, std::size_t count) noexcept;

  // output[i] = (1 - v) * ((1 - u) * p00 + u * p01) + v * ((1 - u) * p10 + u * p11), each operation rounded.
  void interpolate(const float* plane, float* output) const noexcept;
  // output[i] = the nearest pixel, or 0 outside.
  void look_up(const float* plane, float* output) const noexcept;

 private:
  static constexpr std::int32_t kOutside = -1;

  // Lists points that are neither between rows, so many of them, nor between columns.
  void list_edges(std::uint32_t rows, std::uint32_t columns) noexcept;
  void find_edge_pixels(const PlaneSizes& sizes, bool border) noexcept;

  std::size_t count_ = 0, edge_count_ = 0;
  float across_[kMost], down_[kMost];         // u and v
  std::int32_t left_[kMost], top_[kMost];     // pixels
  std::int32_t upper_[kMost], lower_[kMost];  // of two pixels each, or the nearest one, the first one's place
  std::int32_t edges_[kMost];                 // points of which a pixel is outside, or the border's
  std::int32_t edge_pixels_[kMost][4];        // their places, or kOutside
};

}  // namespace dmlcpu
