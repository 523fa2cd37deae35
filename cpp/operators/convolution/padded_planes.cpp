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

// Moves the pixels of a row, which stand one after the other at its end, to where they belong. None is written over
// before it is read, as each moves towards the beginning of the row, and those before it have moved already.
template <std::size_t chunk>
void spread_pixels(std::uint8_t* row, std::size_t pixels, std::size_t channels, std::size_t pixel_bytes) noexcept {
  const std::uint8_t* from = row + pixels * (pixel_bytes - channels);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel, row += pixel_bytes, from += channels) {
    for (std::size_t i = 0; i < channels; i += chunk) {
      std::uint8_t codes[chunk];
      std::memcpy(codes, from + i, chunk);
      std::memcpy(row + i, codes, chunk);
    }
  }
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

bool PaddedPlanes::holds(const ConvolutionGeometry& geometry) {
  constexpr double kMostBytes = 1e14;  // beyond any memory, and far below overflow
  return padded_pixels(geometry) * static_cast<double>(geometry.input_channels) * static_cast<double>(geometry.batch) <=
         kMostBytes;
}

bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  const double taps = static_cast<double>(geometry.kernel_height) * static_cast<double>(geometry.kernel_width);
  const double outputs = static_cast<double>(geometry.output_height) * static_cast<double>(geometry.output_width);
  return holds(geometry) && taps > 1.0 && padded_pixels(geometry) <= outputs * taps;
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, std::int64_t pixel_bytes, std::int64_t images)
    : PaddedPlanes(geometry, pixel_bytes, images, geometry.output_height) {}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, std::int64_t pixel_bytes, std::int64_t images,
                           std::int64_t output_rows)
    : geometry_(geometry),
      pixel_bytes_(pixel_bytes),
      images_(as_size(images)),
      padded_rows_(window_extent(geometry.output_height, geometry.stride_height, geometry.kernel_height,
                                 geometry.dilation_height)),
      rows_(window_extent(output_rows, geometry.stride_height, geometry.kernel_height, geometry.dilation_height)),
      columns_(
          window_extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width)),
      row_bytes_(as_size(columns_ * pixel_bytes)),
      image_bytes_(as_size(rows_) * row_bytes_) {}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, std::int64_t images,
                        std::int64_t first_row, int num_threads, std::uint8_t* planes) const {
  const std::size_t rows = as_size(std::min(rows_, padded_rows_ - first_row));
  parallel_for(as_size(images) * rows, num_threads, [&](std::size_t task, int) noexcept {
    std::uint8_t* row = planes + task * row_bytes_;
    const std::size_t columns = as_size(columns_), channels = as_size(geometry_.input_channels);
    pack_padded_row(geometry_, kernels, source, static_cast<std::int64_t>(task / rows),
                    first_row + static_cast<std::int64_t>(task % rows), 0, columns_,
                    row + columns * (pixel_bytes() - channels));
    if (pixel_bytes() == channels) return;
    channels % 16 == 0 ? spread_pixels<16>(row, columns, channels, pixel_bytes())
                       : spread_pixels<8>(row, columns, channels, pixel_bytes());
  });
}

}  // namespace dmlcpu
