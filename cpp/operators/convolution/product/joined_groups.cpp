#include "operators/convolution/product/joined_groups.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "operators/convolution/product/product_cells.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// Windows and images for which it is measured to be faster: of one row or column, or of few pixels, what is copied and
// multiplied in vain weighs more, above all beside the lanes of grouped_convolution.
bool pays(const ConvolutionGeometry& geometry) {
  // Of fewer channels too much of a product is multiplication by zeros.
  constexpr std::int64_t kLeastChannels = 16, kLeastPixels = 32, kLeastPixelsBesideLanes = 128;
  const std::int64_t channels = geometry.group_input_channels();
  const bool are_lanes = channels == kLeastChannels && geometry.group_output_channels() == channels;
  if (are_lanes && geometry.has_filter_zero_points) return false;
  return channels >= kLeastChannels && geometry.kernel_height > 1 && geometry.kernel_width > 1 &&
         geometry.image_pixels() >= (are_lanes ? kLeastPixelsBesideLanes : kLeastPixels);
}

}  // namespace

ConvolutionGeometry with_joined_groups(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const GemmKernels& kernels = *target.kernels().gemm;
  if (!kernels.loads_rows_as_tiles || !pays(geometry)) return geometry;
  if (as_number(geometry.kernel_height) * as_number(geometry.kernel_width) > double{kMostSegments}) return geometry;
  // The most that divide the groups.
  std::int64_t joined =
      std::min(static_cast<std::int64_t>(kernels.kr) / geometry.group_input_channels(), geometry.groups);
  while (joined > 1 && geometry.groups % joined != 0) --joined;
  if (joined < 2) return geometry;
  ConvolutionGeometry result = geometry;
  result.groups /= joined;
  result.joined_groups = joined;
  return result;
}

}  // namespace dmlcpu
