// A tensor of {N, C, H, W} sizes and any strides, and the same elements with channels as neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack/pack.h"
#include "operators/sizes.h"

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

// Values of four bytes, of pixels that have the channels of each together, to an output of any strides, in elements.
template <class Value>
void scatter_pixels(const PackKernels& kernels, const Value* values, std::int64_t pixels, std::int64_t channels,
                    Value* output, std::int64_t pixel_stride, std::int64_t channel_stride) noexcept {
  static_assert(sizeof(Value) == 4);
  if (pixel_stride == 1) {  // groups of four bytes that change places are what a panel is gathered of
    kernels.gather_groups({.columns = reinterpret_cast<const std::uint8_t*>(values),
                           .column_stride = as_size(channels) * sizeof(Value),
                           .count = as_size(pixels),
                           .k = as_size(channels) * sizeof(Value),
                           .flip = 0,
                           .output = reinterpret_cast<std::uint8_t*>(output),
                           .group_stride = as_size(channel_stride) * sizeof(Value)});
    return;
  }
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::int64_t c = 0; c < channels; ++c) {
      output[pixel * pixel_stride + c * channel_stride] = values[pixel * channels + c];
    }
  }
}

// Copy images [0, count) between planes and packed {N, H, W, C} memory, in parallel. flip is applied to every code;
// what is scattered has elements of 1 or 4 bytes.
void gather_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                          const std::uint8_t* planes, std::uint8_t flip, int num_threads, std::uint8_t* packed);
void scatter_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                           const std::uint8_t* packed, std::int64_t element_bytes, int num_threads,
                           std::uint8_t* planes);

}  // namespace dmlcpu
