// How a convolution by kernels/winograd is divided among threads and caches, and whether it pays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/winograd/winograd.h"
#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/winograd/tile_axis.h"
#include "operators/operator.h"
#include "operators/sizes.h"

namespace dmlcpu {

// Tasks of rows of tiles, counted over all images, by panels of output channels.
struct WinogradPlan {
  TileAxis across, down;  // of an image
  std::int64_t rows, rows_at_once;
  std::size_t panels, panels_at_once;
  std::size_t part_channels;  // input channels that are transformed at a time, at most

  // Of the transforms of a row of tiles.
  std::size_t row_bytes() const {
    return as_size(across.tiles()) * part_channels * kWinogradPlaces * sizeof(std::int16_t);
  }
  std::size_t block_tiles() const { return as_size(rows_at_once * across.tiles()); }
  std::int64_t blocks() const { return divide_up(rows, rows_at_once); }
  std::size_t panel_groups() const { return (panels + panels_at_once - 1) / panels_at_once; }
};

// A convolution by one group's filter of its channels, which stand amid others.
ConvolutionGeometry of_one_group(const ConvolutionGeometry& geometry);

// Of each group. Threads that divide rows transform the filter each, those that divide panels the input: the one of
// less cycles. The panels of a thread are a cache line of each pixel at least.
WinogradPlan plan_winograd(const ConvolutionGeometry& geometry, const ExecutionTarget& target);

// How input channels are cut into parts whose sums the transforms recover, of filters with any zero points or without.
std::size_t channels_of_part(std::size_t channels, bool any_filter);

// Whether a plain product takes longer by estimate, and the transforms of a row are in a cache.
bool winograd_pays(const ConvolutionGeometry& geometry, const ExecutionTarget& target);

}  // namespace dmlcpu
