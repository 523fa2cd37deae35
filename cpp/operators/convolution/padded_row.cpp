#include "operators/convolution/padded_row.h"

#include <algorithm>
#include <cstring>

#include "operators/sizes.h"
#include "operators/staging.h"

namespace dmlcpu {

void pack_padded_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     std::int64_t image, std::int64_t padded_row, std::int64_t first, std::int64_t count,
                     std::uint8_t* target) {
  const std::int64_t channels = geometry.input_channels, row = padded_row - geometry.padding_top;
  const std::int64_t column = first - geometry.padding_left;
  std::int64_t begin = std::clamp<std::int64_t>(-column, 0, count);
  std::int64_t end = std::clamp<std::int64_t>(geometry.input_width - column, begin, count);
  if (row < 0 || row >= geometry.input_height) begin = end = count;
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
