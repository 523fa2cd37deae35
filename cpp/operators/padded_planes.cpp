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

double PaddedPlanes::channel_codes(const ConvolutionGeometry& geometry) {
  const auto codes = [](double padded, std::int64_t stride, std::int64_t kernel) {
    return (padded / static_cast<double>(stride) + 1.0) * static_cast<double>(std::min(stride, kernel));
  };
  return codes(padded_height(geometry), geometry.stride_height, geometry.kernel_height) *
         codes(padded_width(geometry), geometry.stride_width, geometry.kernel_width);
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, bool last)
    : geometry_(geometry), last_(last), batch_(as_size(geometry.batch)) {
  const std::int64_t height =
      extent(geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height);
  const std::int64_t width =
      extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width);
  rows_ = divide_up(height, geometry.stride_height);
  row_positions_ = divide_up(width, geometry.stride_width);
  used_rows_ =
      number_remainders(geometry.stride_height, geometry.kernel_height, geometry.dilation_height, row_remainder_);
  used_columns_ =
      number_remainders(geometry.stride_width, geometry.kernel_width, geometry.dilation_width, column_remainder_);
  const std::size_t channels = as_size(geometry.input_channels);
  if (last) {
    columns_ = row_positions_ * geometry.stride_width;
    position_bytes_ = as_size(geometry.stride_width) * channels;
    row_bytes_ = as_size(columns_) * channels;
    channel_bytes_ = 1;
    image_bytes_ = as_size(used_rows_ * rows_) * row_bytes_;
  } else {
    columns_ = row_positions_;
    position_bytes_ = 1;
    row_bytes_ = as_size(columns_);
    channel_bytes_ = as_size(used_rows_ * used_columns_ * rows_) * row_bytes_;
    image_bytes_ = channel_bytes_ * channels;
  }
}

std::size_t PaddedPlanes::tap_offset(std::int64_t kernel_row, std::int64_t kernel_column) const {
  const std::int64_t row = kernel_row * geometry_.dilation_height, column = kernel_column * geometry_.dilation_width;
  const std::int64_t row_number = row_remainder_[as_size(row % geometry_.stride_height)];
  const std::int64_t row_of_remainder = row / geometry_.stride_height;
  if (last_) {
    return as_size(row_number * rows_ + row_of_remainder) * row_bytes_ + as_size(column * geometry_.input_channels);
  }
  const std::int64_t column_number = column_remainder_[as_size(column % geometry_.stride_width)];
  const std::int64_t plane = row_number * used_columns_ + column_number;
  return as_size(plane * rows_ + row_of_remainder) * row_bytes_ + as_size(column / geometry_.stride_width);
}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, int num_threads,
                        std::uint8_t* planes) const {
  const std::size_t lines = last_ ? as_size(used_rows_ * rows_) : as_size(geometry_.input_channels);
  parallel_for(batch_ * lines, num_threads, [&](std::size_t task, int) noexcept {
    const auto image = static_cast<std::int64_t>(task / lines), line = static_cast<std::int64_t>(task % lines);
    if (!last_) {
      fill_channel(source, kernels, image, line, planes + task * channel_bytes_);
      return;
    }
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

// One channel: for each remainder of rows and of columns, its rows.
void PaddedPlanes::fill_channel(const ActivationSource& source, const PackKernels& kernels, std::int64_t image,
                                std::int64_t channel, std::uint8_t* plane) const {
  const std::uint8_t* data = source.data + image * geometry_.input.n + channel * geometry_.input.c;
  const std::int64_t row_step = geometry_.stride_height, column_step = geometry_.stride_width;
  for (std::int64_t row_remainder = 0; row_remainder < row_step; ++row_remainder) {
    const std::int64_t row_number = row_remainder_[as_size(row_remainder)];
    for (std::int64_t remainder = 0; row_number >= 0 && remainder < column_step; ++remainder) {
      const std::int64_t column_number = column_remainder_[as_size(remainder)];
      if (column_number < 0) continue;
      std::uint8_t* target = plane + as_size((row_number * used_columns_ + column_number) * rows_) * row_bytes_;
      const IndexRange columns =
          indices_inside(remainder - geometry_.padding_left, column_step, geometry_.input_width, columns_);
      for (std::int64_t i = 0; i < rows_; ++i, target += row_bytes_) {
        const std::int64_t row = row_remainder + i * row_step - geometry_.padding_top;
        const bool in_image = row >= 0 && row < geometry_.input_height && columns.begin < columns.end;
        const std::int64_t begin = in_image ? columns.begin : columns_, end = in_image ? columns.end : columns_;
        std::memset(target, source.zero_point, as_size(begin));
        std::memset(target + end, source.zero_point, as_size(columns_ - end));
        if (!in_image) continue;
        const std::int64_t first = remainder - geometry_.padding_left + begin * column_step;
        copy_codes(kernels, data + row * geometry_.input.h + first * geometry_.input.w, column_step * geometry_.input.w,
                   end - begin, source.flip, target + begin);
      }
    }
  }
}

}  // namespace dmlcpu
