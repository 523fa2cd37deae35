#include "operators/convolution/padded/padded_row.h"

#include <cstring>

#include "operators/sizes.h"
#include "operators/strides/staging.h"

namespace dmlcpu {

IndexRange columns_inside(const ConvolutionGeometry& geometry, std::int64_t padded_row, std::int64_t first,
                          std::int64_t count) {
  const std::int64_t row = padded_row - geometry.padding_top;
  if (row < 0 || row >= geometry.input_height) return {count, count};
  return indices_inside(first - geometry.padding_left, 1, geometry.input_width, count);
}

void pack_padded_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     std::int64_t image, std::int64_t padded_row, std::int64_t first, std::int64_t count,
                     std::uint8_t* target) {
  const std::int64_t channels = geometry.input_channels, row = padded_row - geometry.padding_top;
  const std::int64_t column = first - geometry.padding_left;
  const auto [begin, end] = columns_inside(geometry, padded_row, first, count);
  std::memset(target, source.zero_point, as_size(begin * channels));
  std::memset(target + end * channels, source.zero_point, as_size((count - end) * channels));
  if (begin == end) return;
  const std::uint8_t* codes =
      source.data + image * geometry.input.n + row * geometry.input.h + (column + begin) * geometry.input.w;
  if (geometry.input.c == 1 && geometry.input.w == channels) {
    kernels.copy(codes, as_size((end - begin) * channels), source.flip, target + begin * channels);
    return;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    copy_codes(kernels, codes + (i - begin) * geometry.input.w, geometry.input.c, channels, source.flip,
               target + i * channels);
  }
}

}  // namespace dmlcpu
