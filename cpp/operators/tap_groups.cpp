#include "operators/tap_groups.h"

#include <algorithm>

namespace dmlcpu {
namespace {

void append_group(std::size_t buffer, const TapGroups::Buffer& taps, TapGroups& groups) {
  TapGroups::Group group{buffer, {}};
  std::copy(std::begin(taps.taps), std::end(taps.taps), group.taps);
  groups.groups.push_back(group);
}

}  // namespace

TapGroups group_taps(const ConvolutionGeometry& geometry) {
  TapGroups result;
  if (geometry.kernel_height == 1) {
    for (std::int64_t column = 0; column < geometry.kernel_width; column += 4) {
      TapGroups::Buffer buffer;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_width - column); ++i) {
        buffer.taps[i] = {0, column + i};
      }
      append_group(result.buffers.size(), buffer, result);
      result.buffers.push_back(buffer);
    }
    return result;
  }
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
