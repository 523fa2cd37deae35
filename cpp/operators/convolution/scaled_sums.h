// What CONVOLUTION_INTEGER_TO_FLOAT does to the sums of a convolution: they become floats, in place, in the task that
// has computed them, while they are in a cache (kernels/rescale, scale_columns).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/rescale/rescale.h"

namespace dmlcpu {

// Sums of some channels, in runs of pixels; strides count sums.
struct SumsOfPixels {
  std::uint8_t* sums;
  std::size_t runs, run_stride;
  std::size_t pixels, pixel_stride;
  std::size_t first_channel, channels;
};

// Any number of threads at once.
class ScaledSums {
 public:
  // Arrays of an element for each output channel; bias may be null.
  ScaledSums(const RescaleKernels& kernels, const float* multiplier, const float* bias)
      : kernels_(kernels), multiplier_(multiplier), bias_(bias) {}

  void apply(const SumsOfPixels& part) const noexcept {
    const bool are_one = part.run_stride == part.pixels * part.pixel_stride;
    kernels_.scale_columns({.sums = reinterpret_cast<const std::int32_t*>(part.sums),
                            .sums_run_stride = part.run_stride,
                            .sums_row_stride = part.pixel_stride,
                            .runs = are_one ? 1 : part.runs,
                            .m = are_one ? part.runs * part.pixels : part.pixels,
                            .n = part.channels,
                            .multiplier = multiplier_ + part.first_channel,
                            .bias = bias_ == nullptr ? nullptr : bias_ + part.first_channel,
                            .output = reinterpret_cast<float*>(part.sums),
                            .output_run_stride = part.run_stride,
                            .output_row_stride = part.pixel_stride});
  }

 private:
  const RescaleKernels& kernels_;
  const float *multiplier_, *bias_;
};

}  // namespace dmlcpu
