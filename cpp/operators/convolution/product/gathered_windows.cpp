#include "operators/convolution/product/gathered_windows.h"

#include <algorithm>
#include <cstring>

#include "operators/sizes.h"
#include "operators/strides/staging.h"

namespace dmlcpu {
namespace {

// One kernel row of one output pixel: kernel_width taps of channels codes each.
void pack_kernel_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     const std::uint8_t* input_row, std::int64_t first_column, std::uint8_t* target) {
  const std::int64_t channels = geometry.group_input_channels();
  const IndexRange taps =
      indices_inside(first_column, geometry.dilation_width, geometry.input_width, geometry.kernel_width);
  std::memset(target, source.zero_point, as_size(taps.begin * channels));
  std::memset(target + taps.end * channels, source.zero_point, as_size((geometry.kernel_width - taps.end) * channels));
  if (taps.begin == taps.end) return;
  const std::uint8_t* tap_source = input_row + (first_column + taps.begin * geometry.dilation_width) * geometry.input.w;
  // A step that is never taken may be beyond 64 bits.
  const std::int64_t tap_step = taps.count() == 1 ? 0 : geometry.dilation_width * geometry.input.w;
  const bool dense_channels = geometry.input.c == 1 || channels == 1;
  if (dense_channels && tap_step == channels) {  // all taps are one run of memory
    kernels.copy(tap_source, as_size(taps.count() * channels), source.flip, target + taps.begin * channels);
    return;
  }
  for (std::int64_t tap = taps.begin; tap < taps.end; ++tap) {
    copy_codes(kernels, tap_source + (tap - taps.begin) * tap_step, dense_channels ? 1 : geometry.input.c, channels,
               source.flip, target + tap * channels);
  }
}

// Pixels of one image that pixel_stride bytes follow each other: a copy, or of planes a transposition.
void pack_pixels(const ConvolutionGeometry& geometry, const PackKernels& kernels, std::uint8_t flip,
                 const std::uint8_t* data, std::int64_t pixel_stride, std::int64_t count, std::size_t row_bytes,
                 std::uint8_t* rows) {
  const std::int64_t channels = geometry.group_input_channels();
  if (geometry.input.c != 1) {
    kernels.transpose({.input = data,
                       .input_row_stride = as_size(geometry.input.c),
                       .rows = as_size(channels),
                       .columns = as_size(count),
                       .flip = flip,
                       .output = rows,
                       .output_row_stride = row_bytes});
  } else if (gathers_whole_pixels(geometry)) {
    kernels.copy(data, as_size(count * pixel_stride), flip, rows);
  } else {
    for (std::int64_t pixel = 0; pixel < count; ++pixel, rows += row_bytes) {
      kernels.copy(data + pixel * pixel_stride, as_size(channels), flip, rows);
    }
  }
}

}  // namespace

bool gathers_whole_pixels(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t kMostOfGroups = 1024;  // so that a tile is close to the core for each of the groups
  const auto pixel_stride = uniform_pixel_stride(geometry.input, 1, geometry.input_height, geometry.input_width);
  return geometry.pointwise() && geometry.input.c == 1 && pixel_stride == geometry.input_channels &&
         (geometry.groups == 1 || geometry.input_channels <= kMostOfGroups);
}

std::size_t gathered_row_bytes(const ConvolutionGeometry& geometry, std::size_t k_padded) {
  return gathers_whole_pixels(geometry) ? as_size(geometry.input_channels) : k_padded;
}

void gather_windows(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                    std::int64_t group, std::int64_t first, std::int64_t count, std::size_t k_padded,
                    std::uint8_t* rows) {
  const std::int64_t row_bytes = geometry.kernel_width * geometry.group_input_channels();
  const std::uint8_t* data = source.data + group * geometry.group_input_channels() * geometry.input.c;
  const auto pixel_stride = uniform_pixel_stride(geometry.input, 1, geometry.input_height, geometry.input_width);
  if (geometry.pointwise() && pixel_stride && (geometry.input.c == 1 || pixel_stride == 1)) {
    const std::int64_t pixels = geometry.image_pixels();
    const std::size_t of_row = gathered_row_bytes(geometry, k_padded);
    for (const std::int64_t end = first + count; first < end;) {
      const std::int64_t of_image = std::min(end - first, pixels - first % pixels);
      pack_pixels(geometry, kernels, source.flip,
                  data + first / pixels * geometry.input.n + first % pixels * *pixel_stride, *pixel_stride, of_image,
                  of_row, rows);
      rows += as_size(of_image) * of_row;
      first += of_image;
    }
    return;
  }
  for_each_pixel_run(geometry, first, count, [&](std::int64_t offset, const PixelRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      std::uint8_t* target = rows + as_size(offset + i) * k_padded;
      const std::int64_t column = (run.column + i) * geometry.stride_width - geometry.padding_left;
      for (std::int64_t kernel_row = 0; kernel_row < geometry.kernel_height; ++kernel_row, target += row_bytes) {
        const std::int64_t row =
            run.row * geometry.stride_height - geometry.padding_top + kernel_row * geometry.dilation_height;
        if (row < 0 || row >= geometry.input_height) {
          std::memset(target, source.zero_point, as_size(row_bytes));
        } else {
          pack_kernel_row(geometry, kernels, source, data + run.n * geometry.input.n + row * geometry.input.h, column,
                          target);
        }
      }
    }
  });
}

}  // namespace dmlcpu
