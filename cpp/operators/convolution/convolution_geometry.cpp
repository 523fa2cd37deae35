#include "operators/convolution/convolution_geometry.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/depthwise_window/depthwise_window.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

// Axis order of a {N, C, W} tensor seen as {N, C, 1, W}.
PlaneStrides plane_strides(const TensorLayout& layout) {
  if (layout.rank == 3) return {layout.strides[0], layout.strides[1], 0, layout.strides[2]};
  return {layout.strides[0], layout.strides[1], layout.strides[2], layout.strides[3]};
}

struct SpatialAxis {
  std::int64_t stride, dilation, padding;
};

constexpr std::int64_t kMaxSize = 0xffffffff;  // of a tensor in DirectML

// One spatial axis of the desc; checks that the output's size is the one that the formula gives.
SpatialAxis spatial_axis(const OperatorDesc& desc, std::size_t index, std::int64_t input, std::int64_t kernel,
                         std::int64_t output) {
  if (input > kMaxSize || kernel > kMaxSize) throw std::invalid_argument(desc.type + ": a size is out of range");
  const auto entry = [&](const char* name) {
    const std::vector<std::int64_t>& values = desc.attribute(name);
    if (index >= values.size() || values[index] < 0 || values[index] > kMaxSize) {
      throw std::invalid_argument(desc.type + ": " + name + " is too short or out of range");
    }
    return values[index];
  };
  const SpatialAxis axis{entry("strides"), entry("dilations"), entry("start_padding")};
  // Every value is below 2^32, so the sums fit; the product may not.
  std::int64_t reach = 0;
  if (__builtin_mul_overflow(kernel - 1, axis.dilation, &reach)) throw std::invalid_argument(desc.type + ": overflow");
  const std::int64_t room = input + axis.padding + entry("end_padding") - reach - 1;
  if (axis.stride < 1 || axis.dilation < 1 || room < 0 || output != room / axis.stride + 1) {
    throw std::invalid_argument(desc.type + ": the output's size is not that of the formula");
  }
  // A step that is never taken is 1, so that no algorithm sizes anything by it.
  return {output == 1 ? 1 : axis.stride, kernel == 1 ? 1 : axis.dilation, axis.padding};
}

// The window along the depth, which depthwise convolutions alone have. Taps may lie outside the volume, wherever.
DepthWindow depth_window(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& filter,
                         const TensorLayout& output) {
  if (!desc.attributes.contains("depth_window")) return {};
  const std::vector<std::int64_t>& numbers = desc.attribute("depth_window");
  constexpr std::size_t kNumbers = 5;
  if (numbers.size() != kNumbers ||
      std::ranges::any_of(numbers, [](std::int64_t number) { return number < 0 || number > kMaxSize; })) {
    throw std::invalid_argument(desc.type + ": depth_window is too short or out of range");
  }
  const DepthWindow depth = {.input = numbers[0],
                             .output = numbers[1],
                             .taps = filter.sizes[1],
                             .stride = numbers[2],
                             .dilation = numbers[3],
                             .padding = numbers[4]};
  const std::int64_t channels = input.sizes[1];
  if (depth.input < 1 || depth.output < 1 || depth.stride < 1 || depth.dilation < 1) {
    throw std::invalid_argument(desc.type + ": depth_window has slices, a stride and a dilation");
  }
  if (input.sizes[0] % depth.input != 0 || output.sizes[0] % depth.output != 0 ||
      input.sizes[0] / depth.input != output.sizes[0] / depth.output) {
    throw std::invalid_argument(desc.type + ": input and output are not as many volumes of depth_window's slices");
  }
  if (depth.taps < 2 || depth.taps > static_cast<std::int64_t>(kMostWindowSlices) || output.sizes[1] != channels ||
      desc.attribute("group_count")[0] != channels) {
    throw std::invalid_argument(desc.type + ": windows of volumes are depthwise, with 2 to " +
                                std::to_string(kMostWindowSlices) + " taps along the depth");
  }
  return depth;
}

void swap_axes(ConvolutionGeometry& geometry) {
  std::swap(geometry.input_height, geometry.input_width);
  std::swap(geometry.output_height, geometry.output_width);
  std::swap(geometry.kernel_height, geometry.kernel_width);
  std::swap(geometry.stride_height, geometry.stride_width);
  std::swap(geometry.dilation_height, geometry.dilation_width);
  std::swap(geometry.padding_top, geometry.padding_left);
  for (PlaneStrides* strides : {&geometry.input, &geometry.output, &geometry.filter}) {
    std::swap(strides->h, strides->w);
  }
}

// Images of one pixel become the pixels of one row: a product of matrices, whose rows a tile holds many of.
void join_images(ConvolutionGeometry& geometry) {
  geometry.input_width = geometry.output_width = geometry.batch;
  geometry.input.w = geometry.input.n;
  geometry.output.w = geometry.output.n;
  geometry.batch = 1;
}

}  // namespace

ConvolutionGeometry convolution_geometry(const OperatorDesc& desc, const TensorLayout& input,
                                         const TensorLayout& filter, const TensorLayout& output) {
  const std::size_t rank = input.rank;
  if ((rank != 3 && rank != 4) || filter.rank != rank || output.rank != rank) {
    throw std::invalid_argument(desc.type + ": tensors are of rank 3 or 4, all the same");
  }
  const bool two_dimensional = rank == 4;
  const auto height = [&](const TensorLayout& layout) { return two_dimensional ? layout.sizes[2] : 1; };
  const auto width = [&](const TensorLayout& layout) { return layout.sizes[rank - 1]; };

  const SpatialAxis vertical =
      two_dimensional ? spatial_axis(desc, 0, height(input), height(filter), height(output)) : SpatialAxis{1, 1, 0};
  const SpatialAxis horizontal =
      spatial_axis(desc, two_dimensional ? 1 : 0, width(input), width(filter), width(output));
  const std::int64_t groups = desc.attribute("group_count")[0];
  const DepthWindow depth = depth_window(desc, input, filter, output);
  if (groups < 1 || output.sizes[1] % groups != 0 || input.sizes[1] % groups != 0 ||
      input.sizes[1] / groups * depth.taps != filter.sizes[1] || filter.sizes[0] != output.sizes[1] ||
      input.sizes[0] / depth.input != output.sizes[0] / depth.output) {
    throw std::invalid_argument(desc.type + ": batch, channels and groups do not fit together");
  }
  // A single channel has no neighbours: any stride will do.
  PlaneStrides input_strides = plane_strides(input), output_strides = plane_strides(output);
  if (input.sizes[1] == 1) input_strides.c = 1;
  if (output.sizes[1] == 1) output_strides.c = 1;
  ConvolutionGeometry geometry = {.batch = output.sizes[0],
                                  .input_channels = input.sizes[1],
                                  .input_height = height(input),
                                  .input_width = width(input),
                                  .output_channels = output.sizes[1],
                                  .output_height = height(output),
                                  .output_width = width(output),
                                  .kernel_height = height(filter),
                                  .kernel_width = width(filter),
                                  .stride_height = vertical.stride,
                                  .stride_width = horizontal.stride,
                                  .dilation_height = vertical.dilation,
                                  .dilation_width = horizontal.dilation,
                                  .padding_top = vertical.padding,
                                  .padding_left = horizontal.padding,
                                  .groups = groups,
                                  .output_bytes = static_cast<std::int64_t>(element_size(output.type)),
                                  .input = input_strides,
                                  .output = output_strides,
                                  .filter = plane_strides(filter),
                                  .depth = depth,
                                  .has_owned_filter = filter.owned};
  // Columns of one pixel are rows as well, which algorithms take many pixels of at a time.
  if (geometry.input_width == 1 && geometry.kernel_width == 1 && geometry.output_width == 1) swap_axes(geometry);
  if (geometry.pointwise() && geometry.image_pixels() == 1) join_images(geometry);
  return geometry;
}

bool reads_most(const ConvolutionGeometry& geometry) {
  const double taps = as_number(geometry.kernel_height) * as_number(geometry.kernel_width);
  const double outputs = as_number(geometry.output_height) * as_number(geometry.output_width);
  const double inputs = as_number(geometry.input_height) * as_number(geometry.input_width);
  return inputs <= 4.0 * outputs * taps + 64.0;
}

std::int64_t images_at_once(std::int64_t batch, std::size_t image_bytes) {
  const auto most = static_cast<std::int64_t>(cache_sizes().level_2 / 2 / image_bytes);
  std::int64_t images = std::clamp<std::int64_t>(most, 1, batch);
  while (batch % images != 0) --images;
  return images;
}

std::optional<std::int64_t> uniform_pixel_stride(const PlaneStrides& strides, std::int64_t batch, std::int64_t height,
                                                 std::int64_t width) {
  std::int64_t pixel = strides.w;
  if (width == 1) pixel = height == 1 ? strides.n : strides.h;
  if (height > 1 && width > 1 && strides.h != width * pixel) return std::nullopt;
  if (batch > 1 && height * width > 1 && strides.n != height * width * pixel) return std::nullopt;
  return pixel;
}

}  // namespace dmlcpu
