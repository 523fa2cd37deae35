// A tensor of {N, C, H, W} sizes and any strides, and the same elements with channels as neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack/pack.h"

namespace dmlcpu {

// Elements between neighbours along each axis of {N, C, H, W}.
struct PlaneStrides {
  std::int64_t n, c, h, w;
};

// The sizes of one image and its memory.
struct ChannelPlanes {
  std::int64_t channels, height, width;
  PlaneStrides strides;

  std::int64_t pixels() const { return height * width; }
  // Packed {N, H, W, C} memory of the same sizes.
  PlaneStrides channels_last() const { return {pixels() * channels, 1, width * channels, channels}; }
};

// Values of 1, 2 or 4 bytes, of pixels that have the channels of each together, to an output of any strides, in
// elements.
void scatter_pixels(const PackKernels& kernels, const void* values, std::int64_t pixels, std::int64_t channels,
                    std::size_t element_bytes, void* output, std::int64_t pixel_stride,
                    std::int64_t channel_stride) noexcept;

// Copy images [0, count) between planes and packed {N, H, W, C} memory, in parallel. flip is applied to every code;
// what is scattered has elements of 1 or 4 bytes.
void gather_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                          const std::uint8_t* planes, std::uint8_t flip, int num_threads, std::uint8_t* packed);
void scatter_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                           const std::uint8_t* packed, std::int64_t element_bytes, int num_threads,
                           std::uint8_t* planes);

}  // namespace dmlcpu
