#include "operators/convolution/floats/float_filter_panels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/transposed_elements.h"

namespace dmlcpu {
namespace {

// What tells that all elements are finite: all of a cache line, since equal packed filters are found by their bytes.
constexpr std::int64_t kFlagFloats = 16;

bool is_finite(const float* values, std::int64_t count) {
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) finite &= std::abs(values[i]) <= std::numeric_limits<float>::max();
  return finite;
}

}  // namespace

std::int64_t float_panel_row(std::int64_t columns) {
  constexpr std::int64_t kVector = 16;  // lanes of the widest
  return columns < kVector ? columns : divide_up(columns, kVector) * kVector;
}

FloatFilterPanels::FloatFilterPanels(const ConvolutionGeometry& geometry, const KernelTable& kernels)
    : geometry_(geometry),
      pack_(kernels.pack),
      columns_(static_cast<std::int64_t>(kernels.float_product->panel_columns)) {}

std::int64_t FloatFilterPanels::group_floats() const {
  const std::int64_t columns = geometry_.group_output_channels(), last = columns % columns_;
  return (columns - last + float_panel_row(last)) * geometry_.reduction();
}

std::int64_t FloatFilterPanels::floats() const {
  return geometry_.groups * group_floats() + (taps() > 1 ? kFlagFloats : 0);
}

void FloatFilterPanels::pack(const float* filter, float* packed) const {
  const std::int64_t columns = geometry_.group_output_channels();
  for (std::int64_t first = 0; first < geometry_.output_channels;) {
    const std::int64_t count = std::min(columns_, columns - first % columns), stride = float_panel_row(count);
    for (std::int64_t k = 0; count < stride && k < geometry_.reduction(); ++k) {
      std::fill_n(packed + k * stride + count, stride - count, 0.0F);
    }
    pack_panel(filter + first * geometry_.filter.n, count, packed);
    packed += geometry_.reduction() * stride;
    first += count;
  }
  if (taps() > 1) {
    const std::int64_t count = geometry_.groups * group_floats();
    std::fill_n(packed, kFlagFloats, is_finite(packed - count, count) ? 1.0F : 0.0F);
  }
}

// Output channels are rows of the filter, and columns of the panel: what is contiguous in a row, channels or taps, is
// transposed.
void FloatFilterPanels::pack_panel(const float* filter, std::int64_t count, float* packed) const {
  const PlaneStrides& strides = geometry_.filter;
  const std::int64_t channels = geometry_.group_input_channels(), stride = float_panel_row(count);
  const auto transpose = [&](const float* from, std::int64_t length, float* to, std::int64_t step) {
    transpose_elements(*pack_, sizeof(float), from, strides.n, count, length, to, step);
  };
  const bool taps_are_runs = strides.w == 1 && strides.h == geometry_.kernel_width;
  if (strides.c != 1 && taps() > 1 && taps_are_runs) {
    for (std::int64_t c = 0; c < channels; ++c) {
      transpose(filter + c * strides.c, taps(), packed + c * stride, channels * stride);
    }
    return;
  }
  for (std::int64_t tap = 0; tap < taps(); ++tap, packed += channels * stride) {
    const float* from = filter + tap / geometry_.kernel_width * strides.h + tap % geometry_.kernel_width * strides.w;
    if (strides.c == 1) {
      transpose(from, channels, packed, stride);
    } else {
      copy_rows(from, {strides.n, strides.c}, packed, {1, stride}, count, channels);
    }
  }
}

}  // namespace dmlcpu
