#include "operators/padded_planes.h"

#include "operators/convolution_packing.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double height = window_extent(number(geometry.output_height), number(geometry.stride_height),
                                      number(geometry.kernel_height), number(geometry.dilation_height));
  const double width = window_extent(number(geometry.output_width), number(geometry.stride_width),
                                     number(geometry.kernel_width), number(geometry.dilation_width));
  constexpr double kMostBytes = 1e14;  // beyond any memory, and far below overflow
  if (height * width * number(geometry.input_channels) * number(geometry.batch) > kMostBytes) return false;
  const double taps = number(geometry.kernel_height) * number(geometry.kernel_width);
  return taps > 1.0 && height * width <= number(geometry.output_height) * number(geometry.output_width) * taps;
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry)
    : geometry_(geometry),
      batch_(as_size(geometry.batch)),
      rows_(window_extent(geometry.output_height, geometry.stride_height, geometry.kernel_height,
                          geometry.dilation_height)),
      columns_(
          window_extent(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width)),
      row_bytes_(as_size(columns_ * geometry.input_channels)),
      image_bytes_(as_size(rows_) * row_bytes_) {}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, int num_threads,
                        std::uint8_t* planes) const {
  const std::size_t rows = as_size(rows_);
  parallel_for(batch_ * rows, num_threads, [&](std::size_t task, int) noexcept {
    pack_padded_row(geometry_, kernels, source, static_cast<std::int64_t>(task / rows),
                    static_cast<std::int64_t>(task % rows), 0, columns_, planes + task * row_bytes_);
  });
}

}  // namespace dmlcpu
