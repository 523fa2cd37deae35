#include "operators/pooling/pooling_geometry.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dmlcpu {

PoolingAxis pooling_axis(const OperatorDesc& desc, std::size_t index, std::int64_t input, std::int64_t output) {
  constexpr std::int64_t kMaxSize = 0xffffffff;  // of a tensor in DirectML
  if (input > kMaxSize || output > kMaxSize) throw std::invalid_argument(desc.type + ": a size is out of range");
  const auto entry = [&](const char* name, std::int64_t lowest) {
    const std::vector<std::int64_t>& values = desc.attribute(name);
    if (index >= values.size() || values[index] < lowest || values[index] > kMaxSize) {
      throw std::invalid_argument(desc.type + ": " + name + " is too short or out of range");
    }
    return values[index];
  };
  const PoolingAxis axis = {.input = input,
                            .output = output,
                            .window = entry("window_size", 1),
                            .stride = entry("strides", 1),
                            .dilation = entry("dilations", 1),
                            .padding = entry("start_padding", 0)};
  // Every value is below 2^32, so the sums fit; the product may not.
  std::int64_t reach = 0;
  if (__builtin_mul_overflow(axis.window - 1, axis.dilation, &reach)) {
    throw std::invalid_argument(desc.type + ": a window is too large");
  }
  const std::int64_t room = axis.input + axis.padding + entry("end_padding", 0) - reach - 1;
  if (room < 0 || axis.output != room / axis.stride + 1) {
    throw std::invalid_argument(desc.type + ": the output's size is not that of the formula");
  }
  return axis;
}

IndexRange PoolingAxis::positions(std::int64_t first, std::int64_t end) const {
  const std::int64_t begin = std::clamp<std::int64_t>(position(first, 0), 0, input);
  return {begin, std::clamp(position(end - 1, window - 1) + 1, begin, input)};
}

float PoolingGeometry::divisor(std::int64_t taps) const {
  if (!divides) return 1.0F;
  if (!include_padding) return static_cast<float>(taps);
  __extension__ typedef unsigned __int128 Product;  // of three numbers below 2^32
  Product window = 1;
  for (const PoolingAxis& axis : axes) window *= static_cast<Product>(axis.window);
  return static_cast<float>(window);
}

bool PoolingGeometry::has_empty_window() const {
  return std::ranges::any_of(axes, [](const PoolingAxis& axis) {
    for (std::int64_t i = 0; i < axis.output; ++i) {
      if (axis.taps(i).count() == 0) return true;
    }
    return false;
  });
}

double PoolingGeometry::reuse() const {
  double windows = 1.0;
  for (const PoolingAxis& axis : axes) {
    windows *= static_cast<double>(axis.output) * static_cast<double>(axis.window) / static_cast<double>(axis.input);
  }
  return windows;
}

PoolingGeometry pooling_geometry(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output) {
  if ((input.rank != 4 && input.rank != 5) || output.rank != input.rank || output.type != input.type) {
    throw std::invalid_argument(desc.type + ": input and output are of one type and of rank 4 or 5, both the same");
  }
  if (input.sizes[0] != output.sizes[0] || input.sizes[1] != output.sizes[1]) {
    throw std::invalid_argument(desc.type + ": input and output differ in batch or channels");
  }
  PoolingGeometry geometry = {.batch = input.sizes[0],
                              .channels = input.sizes[1],
                              .input_image_step = input.strides[0],
                              .input_channel_step = input.strides[1],
                              .output_image_step = output.strides[0],
                              .output_channel_step = output.strides[1],
                              .axes = {},
                              .include_padding = desc.attribute("include_padding")[0] != 0};
  const std::size_t spatial_axes = input.rank - 2;
  for (std::size_t i = 0; i < spatial_axes; ++i) {
    PoolingAxis& axis = geometry.axes[3 - spatial_axes + i];
    axis = pooling_axis(desc, i, input.sizes[i + 2], output.sizes[i + 2]);
    axis.input_step = input.strides[i + 2];
    axis.output_step = output.strides[i + 2];
    // No position depends on these, which may be too large to be multiplied by steps in memory.
    if (axis.window == 1) axis.dilation = 1;
    if (axis.output == 1) axis.stride = 1;
  }
  // A single channel has no neighbours: any step will do.
  if (geometry.channels == 1) geometry.input_channel_step = geometry.output_channel_step = 1;
  // Windows of one row are taken along it, so a single column is turned into one.
  const PoolingAxis& width = geometry.axes[2];
  if (width.input == 1 && width.window == 1 && width.output == 1) std::swap(geometry.axes[1], geometry.axes[2]);
  return geometry;
}

}  // namespace dmlcpu
