#include "operators/padded_planes.h"

#include <algorithm>
#include <cstring>

#include "operators/convolution_packing.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Padded rows (or columns) from the first that an output reads to the last.
template <class Number>
Number extent(Number outputs, Number stride, Number kernel, Number dilation) {
  return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
}

}  // namespace

bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  // In floating point: extents of absurd descs overflow integers.
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double height = extent(number(geometry.output_height), number(geometry.stride_height),
                               number(geometry.kernel_height), number(geometry.dilation_height));
  const double width = extent(number(geometry.output_width), number(geometry.stride_width),
                              number(geometry.kernel_width), number(geometry.dilation_width));
  constexpr double kMostBytes = 1e14;  // beyond any memory, and far below overflow
  if (height * width * number(geometry.input_channels) * number(geometry.batch) > kMostBytes) return false;
  const double taps = number(geometry.kernel_height) * number(geometry.kernel_width);
  return taps > 1.0 && height * width <= number(geometry.output_height) * number(geometry.output_width) * taps;
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry)
    : geometry_(geometry),
      batch_(as_size(geometry.batch)),
      rows_(extent(geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height)),
      columns_(extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width)),
      row_bytes_(as_size(columns_ * geometry.input_channels)),
      image_bytes_(as_size(rows_) * row_bytes_) {}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, int num_threads,
                        std::uint8_t* planes) const {
  const std::size_t rows = as_size(rows_);
  parallel_for(batch_ * rows, num_threads, [&](std::size_t task, int) noexcept {
    fill_row(source, kernels, static_cast<std::int64_t>(task / rows), static_cast<std::int64_t>(task % rows),
             planes + task * row_bytes_);
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
  for (std::int64_t column = begin; column < end; ++column) {
    copy_codes(kernels, first + (column - begin) * geometry_.input.w, geometry_.input.c, channels, source.flip,
               target + column * channels);
  }
}

}  // namespace dmlcpu
