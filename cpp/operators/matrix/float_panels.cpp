#include "operators/matrix/float_panels.h"

#include <algorithm>
#include <cstring>

#include "operators/sizes.h"

namespace dmlcpu {

std::int64_t float_panel_width(const KernelTable& kernels) {
  return static_cast<std::int64_t>(kernels.float_product->panel_columns);
}

std::int64_t narrow_panel_terms(std::int64_t rows, std::int64_t k) {
  constexpr std::int64_t kTermsOfTile = 3 << 15, kMostTerms = 1024, kFewRows = 2;
  if (rows <= kFewRows) return k;
  const std::int64_t most = std::min(kTermsOfTile / std::min(rows, kFloatTileRows), kMostTerms);
  return divide_up(k, divide_up(k, most));
}

void pack_float_panel(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                      std::int64_t columns, std::int64_t width, float* panel) noexcept {
  if (strides.row == 1 && strides.column > 0) {
    kernels.gather_groups({.columns = reinterpret_cast<const std::uint8_t*>(b),
                           .column_stride = as_size(strides.column) * sizeof(float),
                           .count = as_size(columns),
                           .k = as_size(k) * sizeof(float),
                           .flip = 0,
                           .output = reinterpret_cast<std::uint8_t*>(panel),
                           .group_stride = as_size(width) * sizeof(float)});
    return;
  }
  for (std::int64_t row = 0; row < k; ++row, b += strides.row, panel += width) {
    if (strides.column == 1) {
      std::memcpy(panel, b, as_size(columns) * sizeof(float));
      continue;
    }
    for (std::int64_t column = 0; column < columns; ++column) panel[column] = b[column * strides.column];
  }
}

void pack_float_panels(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                       std::int64_t n, std::int64_t width, float* panels) noexcept {
  for (std::int64_t column = 0; column < n; column += width) {
    const std::int64_t columns = std::min(width, n - column);
    if (columns < width) std::fill_n(panels, width * k, 0.0F);
    pack_float_panel(kernels, b + column * strides.column, strides, k, columns, width, panels);
    panels += width * k;
  }
}

}  // namespace dmlcpu
