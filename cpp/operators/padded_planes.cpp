#include "operators/padded_planes.h"

#include <algorithm>
#include <cstring>

#include "operators/convolution_packing.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Padded rows (or columns) from the first that an output reads to the last.
std::int64_t extent(std::int64_t outputs, std::int64_t stride, std::int64_t kernel, std::int64_t dilation) {
  return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
}

// The same of the geometry's rows and columns. In floating point: extents of absurd descs overflow integers.
double padded(std::int64_t outputs, std::int64_t stride, std::int64_t kernel, std::int64_t dilation) {
  return static_cast<double>(outputs - 1) * static_cast<double>(stride) +
         static_cast<double>(kernel - 1) * static_cast<double>(dilation) + 1.0;
}

double padded_height(const ConvolutionGeometry& geometry) {
  return padded(geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height);
}

double padded_width(const ConvolutionGeometry& geometry) {
  return padded(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width);
}

// Numbers the remainders of stride that some tap has, in the order of the taps; returns how many there are.
std::int64_t number_remainders(std::int64_t stride, std::int64_t kernel, std::int64_t dilation,
                               std::vector<std::int64_t>& numbers) {
  std::int64_t used = 0;
  numbers.assign(as_size(stride), -1);
  for (std::int64_t tap = 0; tap < kernel; ++tap) {
    std::int64_t& number = numbers[as_size(tap * dilation % stride)];
    if (number < 0) number = used++;
  }
  return used;
}

}  // namespace

bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  const double pixels = static_cast<double>(geometry.input_height) * static_cast<double>(geometry.input_width);
  return possible(geometry) && padded_height(geometry) * padded_width(geometry) <= 2.5 * pixels &&
         padded_width(geometry) <=
             1.6 * static_cast<double>(geometry.output_width) * static_cast<double>(geometry.stride_width);
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry) : geometry_(geometry), batch_(as_size(geometry.batch)) {
  rows_ = divide_up(
      extent(geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height),
      geometry.stride_height);
  row_positions_ =
      divide_up(extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width),
                geometry.stride_width);
  used_rows_ =
      number_remainders(geometry.stride_height, geometry.kernel_height, geometry.dilation_height, row_remainder_);
  const std::size_t channels = as_size(geometry.input_channels);
  columns_ = row_positions_ * geometry.stride_width;
  position_bytes_ = as_size(geometry.stride_width) * channels;
  row_bytes_ = as_size(columns_) * channels;
  image_bytes_ = as_size(used_rows_ * rows_) * row_bytes_;
}

std::size_t PaddedPlanes::row_offset(std::int64_t kernel_row) const {
  const std::int64_t row = kernel_row * geometry_.dilation_height;
  const std::int64_t number = row_remainder_[as_size(row % geometry_.stride_height)];
  return as_size(number * rows_ + row / geometry_.stride_height) * row_bytes_;
}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, int num_threads,
                        std::uint8_t* planes) const {
  const std::size_t lines = as_size(used_rows_ * rows_);
  parallel_for(batch_ * lines, num_threads, [&](std::size_t task, int) noexcept {
    const auto image = static_cast<std::int64_t>(task / lines), line = static_cast<std::int64_t>(task % lines);
    const auto remainder = std::find(row_remainder_.begin(), row_remainder_.end(), line / rows_);
    const std::int64_t padded_row = (remainder - row_remainder_.begin()) + line % rows_ * geometry_.stride_height;
    fill_row(source, kernels, image, padded_row, planes + task * row_bytes_);
  });
}

// One padded row with its channels together.
void PaddedPlanes::fill_row(const ActivationSource& source, const PackKernels& kernels, std::int64_t image,
                            std::int64_t padded_row, std::uint8_t* target) const {
  const std::int64_t channels = geometry_.input_channels, row = padded_row - geometry_.padding_top;
  std::int64_t begin = std::min(geometry_.padding_left, columns_);
  std::int64_t end = std::clamp(geometry_.padding_left + geometry_.input_width, begin, columns_);
  if (row < 0 || row >= geometry_.input_height) begin = end = columns_;
  std::memset(target, source.zero_point, as_size(begin * channels));
  std::memset(target + end * channels, source.zero_point, as_size((columns_ - end) * channels));
  if (begin == end) return;
  const std::uint8_t* first = source.data + image * geometry_.input.n + row * geometry_.input.h +
                              (begin - geometry_.padding_left) * geometry_.input.w;
  if (geometry_.input.c == 1 && geometry_.input.w == channels) {
    kernels.copy(first, as_size((end - begin) * channels), source.flip, target + begin * channels);
    return;
  }
  for (std::int64_t column = begin; column < end; ++column, first += geometry_.input.w) {
    copy_codes(kernels, first, geometry_.input.c, channels, source.flip, target + column * channels);
  }
}

}  // namespace dmlcpu
