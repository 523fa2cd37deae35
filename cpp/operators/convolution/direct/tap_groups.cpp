#include "operators/convolution/direct/tap_groups.h"

#include <algorithm>

namespace dmlcpu {
namespace {

void append_group(std::size_t buffer, const TapGroups::Buffer& taps, TapGroups& groups) {
  TapGroups::Group group{buffer, {}};
  std::copy(std::begin(taps.taps), std::end(taps.taps), group.taps);
  groups.groups.push_back(group);
}

// Whether pairs of rows and columns take less time than columns of four rows: where these do not hold the window, every
// code would be interleaved twice for each output row, and once more in the next. A 3x3 window is four pairs, but three
// columns. Pairs are interleaved a pixel at a time, which needs some channels.
bool takes_pairs(const ConvolutionGeometry& geometry) {
  return geometry.stride_height == 2 && geometry.stride_width == 2 && geometry.dilation_height == 1 &&
         geometry.dilation_width == 1 && geometry.kernel_height > 4 && geometry.kernel_width > 1 &&
         geometry.output_channels >= 32;
}

TapGroups group_pairs(const ConvolutionGeometry& geometry) {
  TapGroups result;
  result.pairs = true;
  for (std::int64_t row = 0; row < geometry.kernel_height; row += 2) {
    for (std::int64_t column = 0; column < geometry.kernel_width; column += 2) {
      TapGroups::Buffer buffer;
      for (std::int64_t i = 0; i < 4; ++i) {
        const Tap tap = {row + i / 2, column + i % 2};
        if (tap.row < geometry.kernel_height && tap.column < geometry.kernel_width) buffer.taps[i] = tap;
      }
      if (column == 0) result.buffers.push_back(buffer);
      append_group(result.buffers.size() - 1, buffer, result);
    }
  }
  return result;
}

// The last four columns of a row that is no multiple of four long are one group, without those that another has.
TapGroups group_columns(std::int64_t kernel_width) {
  TapGroups result;
  for (std::int64_t column = 0; column < kernel_width; column += 4) {
    const std::int64_t first = std::clamp<std::int64_t>(kernel_width - 4, 0, column);
    TapGroups::Buffer buffer;
    for (std::int64_t i = 0; i < 4; ++i) {
      const bool is_tap = first + i >= column && first + i < kernel_width;
      buffer.taps[i] = {is_tap ? 0 : -1, first + i};
    }
    if (column == 0) result.buffers.push_back(buffer);
    append_group(0, buffer, result);
  }
  return result;
}

}  // namespace

TapGroups group_taps(const ConvolutionGeometry& geometry) {
  if (takes_pairs(geometry)) return group_pairs(geometry);
  if (geometry.kernel_height == 1) return group_columns(geometry.kernel_width);
  TapGroups result;
  for (std::int64_t row = 0; row < geometry.kernel_height; row += 4) {
    for (std::int64_t column = 0; column < geometry.kernel_width; ++column) {
      TapGroups::Buffer buffer;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_height - row); ++i) {
        buffer.taps[i] = {row + i, column};
      }
      if (column == 0) result.buffers.push_back(buffer);
      append_group(result.buffers.size() - 1, buffer, result);
    }
  }
  return result;
}

}  // namespace dmlcpu
