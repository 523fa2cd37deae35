#include "operators/matrix/float_panels.h"

#include <algorithm>
#include <cstring>

#include "operators/sizes.h"

namespace dmlcpu {

void pack_float_panel(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                      std::int64_t columns, float* panel) noexcept {
  if (strides.row == 1 && strides.column > 0) {
    kernels.gather_groups({.columns = reinterpret_cast<const std::uint8_t*>(b),
                           .column_stride = as_size(strides.column) * sizeof(float),
                           .count = as_size(columns),
                           .k = as_size(k) * sizeof(float),
                           .flip = 0,
                           .output = reinterpret_cast<std::uint8_t*>(panel),
                           .group_stride = kFloatPanelColumns * sizeof(float)});
    return;
  }
  for (std::int64_t row = 0; row < k; ++row, b += strides.row, panel += kFloatPanelColumns) {
    if (strides.column == 1) {
      std::memcpy(panel, b, as_size(columns) * sizeof(float));
      continue;
    }
    for (std::int64_t column = 0; column < columns; ++column) panel[column] = b[column * strides.column];
  }
}

void pack_float_panels(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                       std::int64_t n, float* panels) noexcept {
  for (std::int64_t column = 0; column < n; column += kFloatPanelColumns) {
    const std::int64_t columns = std::min(kFloatPanelColumns, n - column);
    if (columns < kFloatPanelColumns) std::fill_n(panels, kFloatPanelColumns * k, 0.0F);
    pack_float_panel(kernels, b + column * strides.column, strides, k, columns, panels);
    panels += kFloatPanelColumns * k;
  }
}

}  // namespace dmlcpu
