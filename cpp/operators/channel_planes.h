// A tensor of {N, C, H, W} sizes and any strides, and the same elements with channels as neighbours.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "operators/convolution_geometry.h"

namespace dmlcpu {

// The sizes of one image and its memory.
struct ChannelPlanes {
  std::int64_t channels, height, width;
  PlaneStrides strides;

  std::int64_t pixels() const { return height * width; }
  // Packed {N, H, W, C} memory of the same sizes.
  PlaneStrides channels_last() const { return {pixels() * channels, 1, width * channels, channels}; }
};

// Copy images [0, count) between planes and packed {N, H, W, C} memory, in parallel. flip is applied to every code.
void gather_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                          const std::uint8_t* planes, std::uint8_t flip, int num_threads, std::uint8_t* packed);
void scatter_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                           const std::uint8_t* packed, int num_threads, std::uint8_t* planes);

}  // namespace dmlcpu
