#include "operators/convolution/product/joined_groups.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "operators/sizes.h"

namespace dmlcpu {

ConvolutionGeometry with_joined_groups(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  constexpr std::int64_t kLeastChannels = 16;  // of fewer too little of a product is no multiplication by zeros
  const GemmKernels& kernels = *target.kernels().gemm;
  const std::int64_t channels = geometry.group_input_channels();
  if (!kernels.loads_rows_as_tiles || channels < kLeastChannels) return geometry;
  constexpr double kMostTaps = 1 << 12;  // a plan keeps a table of them
  if (as_number(geometry.kernel_height) * as_number(geometry.kernel_width) > kMostTaps) return geometry;
  // The most that divide the groups.
  std::int64_t joined = std::min(static_cast<std::int64_t>(kernels.kr) / channels, geometry.groups);
  while (joined > 1 && geometry.groups % joined != 0) --joined;
  if (joined < 2) return geometry;
  ConvolutionGeometry result = geometry;
  result.groups /= joined;
  result.joined_groups = joined;
  return result;
}

}  // namespace dmlcpu
