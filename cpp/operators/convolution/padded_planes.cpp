#include "operators/convolution/padded_planes.h"

#include <algorithm>
#include <cstring>

#include "operators/convolution/convolution_packing.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Padded pixels of an image, in floating point: those of absurd descs overflow integers.
double padded_pixels(const ConvolutionGeometry& geometry) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  return window_extent(number(geometry.output_height), number(geometry.stride_height), number(geometry.kernel_height),
                       number(geometry.dilation_height)) *
         window_extent(number(geometry.output_width), number(geometry.stride_width), number(geometry.kernel_width),
                       number(geometry.dilation_width));
}

}  // namespace

ConvolutionGeometry unpadded(ConvolutionGeometry geometry) {
  geometry.output_height = geometry.input_height;
  geometry.output_width = geometry.input_width;
  geometry.kernel_height = geometry.kernel_width = 1;
  geometry.stride_height = geometry.stride_width = 1;
  geometry.dilation_height = geometry.dilation_width = 1;
  geometry.padding_top = geometry.padding_left = 0;
  return geometry;
}

constexpr double kMostBytes = 1e14;  // beyond any memory, and far below overflow

bool PaddedPlanes::holds(const ConvolutionGeometry& geometry, const PlaneCells& cells) {
  const double taken = static_cast<double>(cells.bytes) / static_cast<double>(geometry.input_channels);
  const double pixels = padded_pixels(geometry) * static_cast<double>(geometry.batch);
  return pixels * std::max(taken, 1.0) * static_cast<double>(geometry.input_channels) <= kMostBytes;
}

bool PaddedPlanes::holds(const ConvolutionGeometry& geometry) {
  return padded_pixels(geometry) * static_cast<double>(geometry.input_channels) * static_cast<double>(geometry.batch) <=
         kMostBytes;
}

bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  const double taps = static_cast<double>(geometry.kernel_height) * static_cast<double>(geometry.kernel_width);
  const double outputs = static_cast<double>(geometry.output_height) * static_cast<double>(geometry.output_width);
  return holds(geometry) && taps > 1.0 && padded_pixels(geometry) <= outputs * taps;
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t images,
                           int num_threads)
    : PaddedPlanes(geometry, cells, images, geometry.output_height, num_threads) {}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t images,
                           std::int64_t output_rows, int num_threads)
    : geometry_(geometry),
      cells_(cells),
      images_(as_size(images)),
      rows_of_image_(rows_of(geometry.output_height)),
      rows_(rows_of(output_rows)),
      num_threads_(static_cast<int>(std::min<std::int64_t>(num_threads, images * rows_))),
      columns_(
          window_extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width)),
      cells_of_row_(cells.are_windows ? geometry.output_width : columns_),
      packed_row_bytes_(cells.bytes == geometry.input_channels ? 0 : as_size(columns_ * geometry.input_channels)),
      row_bytes_(as_size(divide_up(cells_of_row_, cells.multiple) * cells.multiple * cells.bytes)),
      image_bytes_(as_size(rows_) * row_bytes_) {}

std::int64_t PaddedPlanes::rows_of(std::int64_t output_rows) const {
  const std::int64_t segments = divide_up(geometry_.kernel_height, cells_.rows);
  const std::int64_t last =
      (output_rows - 1) * geometry_.stride_height + (segments - 1) * cells_.rows * geometry_.dilation_height;
  return last / cells_.row_step + 1;
}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, std::int64_t images,
                        std::int64_t first_row, std::uint8_t* planes) const {
  const std::int64_t first = first_row * (geometry_.stride_height / cells_.row_step);
  const std::size_t rows = as_size(std::min(rows_, rows_of_image_ - first));
  std::uint8_t* const packed_rows = planes + image_bytes_ * images_ + kAlignment;
  parallel_for(as_size(images) * rows, num_threads_, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* const row = planes + task * row_bytes_;
    std::uint8_t* const packed = packed_row_bytes_ == 0 ? row : packed_rows + as_size(slot) * packed_row_bytes_;
    const std::int64_t channels = geometry_.input_channels;
    const std::size_t piece_bytes = as_size(channels * cells_.columns(geometry_));
    for (std::int64_t of_cell = 0; of_cell < cells_.rows; ++of_cell) {
      pack_padded_row(geometry_, kernels, source, static_cast<std::int64_t>(task / rows),
                      (first + static_cast<std::int64_t>(task % rows)) * cells_.row_step + of_cell, 0, columns_,
                      packed);
      if (packed_row_bytes_ == 0) return;
      kernels.spread({.input = packed,
                      .input_step = as_size(channels * (cells_.are_windows ? geometry_.stride_width : 1)),
                      .count = as_size(cells_of_row_),
                      .piece_bytes = piece_bytes,
                      .output = row + as_size(of_cell) * piece_bytes,
                      .output_step = as_size(cells_.bytes)});
    }
  });
}

}  // namespace dmlcpu
