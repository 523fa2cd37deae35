// Sizes and strides of a window that slides over two or three spatial axes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/index_range.h"
#include "operators/operator.h"

namespace dmlcpu {

// One spatial axis. The window of output index o begins at o * stride - padding.
struct PoolingAxis {
  std::int64_t input = 1, output = 1, window = 1;
  std::int64_t stride = 1, dilation = 1, padding = 0;
  std::int64_t input_step = 0, output_step = 0;  // elements between neighbours in memory

  std::int64_t position(std::int64_t index, std::int64_t tap) const {
    return index * stride - padding + tap * dilation;
  }
  // From the first tap to the last.
  std::int64_t reach() const { return (window - 1) * dilation + 1; }
  // The taps of a window that are inside of the image.
  IndexRange taps(std::int64_t index) const {
    const std::int64_t first = position(index, 0);
    if (first >= 0 && first + reach() <= input) return {0, window};  // without a division
    return indices_inside(first, dilation, input, window);
  }
  // The outputs all of whose taps are.
  IndexRange whole_windows() const { return indices_inside(-padding, stride, input - reach() + 1, output); }
  // The input positions that the windows of outputs [first, end) read are within this range.
  IndexRange positions(std::int64_t first, std::int64_t end) const;
};

// The axis of entry index of the attributes, without its steps in memory. Throws std::invalid_argument where numbers
// are out of range or the output's size is not the one that the formula gives: then no position overflows.
PoolingAxis pooling_axis(const OperatorDesc& desc, std::size_t index, std::int64_t input, std::int64_t output);

struct PoolingGeometry {
  std::int64_t batch, channels;
  std::int64_t input_image_step, input_channel_step;
  std::int64_t output_image_step, output_channel_step;
  PoolingAxis axes[3];  // depth, height, width; depth is 1 where there are two
  bool include_padding;
  bool divides = true;  // else all divisors are 1

  // What the sum of a window is divided by; taps are those inside of the image. Rounded as any integer that becomes a
  // float32.
  float divisor(std::int64_t taps) const;
  // Whether a window is wholly in the padding.
  bool has_empty_window() const;
  // Windows that read an input element, on average over the elements.
  double reuse() const;
};

// Reads a pooling's desc. Throws std::invalid_argument where sizes do not fit together: the kernels' memory safety
// rests on these checks alone.
PoolingGeometry pooling_geometry(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output);

}  // namespace dmlcpu
