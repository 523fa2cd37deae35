#include "operators/pooling/float_bands.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "operators/sizes.h"

namespace dmlcpu {

FloatPoolFunction windows_kernel(FloatPool function, const ExecutionTarget& target) {
  const FloatPoolKernels& kernels = *target.kernels().float_pool;
  if (function == FloatPool::averages) return kernels.sums;
  return function == FloatPool::maxima ? kernels.maxima : kernels.minima;
}

FloatBinary binary_function(FloatPool function) {
  if (function == FloatPool::averages) return FloatBinary::add;
  return function == FloatPool::maxima ? FloatBinary::maximum : FloatBinary::minimum;
}

float neutral_float(FloatPool function) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (function == FloatPool::averages) return 0.0F;
  return function == FloatPool::maxima ? -kInfinity : kInfinity;
}

FloatBands::FloatBands(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target)
    : geometry_(geometry),
      function_(function),
      rows_first_(function != FloatPool::averages && std::min(geometry.axes[1].window, geometry.axes[2].window) > 1 &&
                  std::max(geometry.axes[1].window, geometry.axes[2].window) > 2),
      whole_columns_(geometry.axes[2].whole_windows()),
      pool_(windows_kernel(function, target)),
      divide_(target.kernels().float_functions->binary[static_cast<std::size_t>(FloatBinary::divide)]) {}

// Of a row with the padding that its windows reach: a multiple of the stride, so that the windows of all rows are one
// run.
std::int64_t FloatBands::width() const {
  const PoolingAxis& axis = geometry_.axes[2];
  const std::int64_t reach = (axis.output - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1;
  return divide_up(reach, axis.stride) * axis.stride;
}

std::int64_t FloatBands::rows() const {
  constexpr std::int64_t kLong = 128, kLongSkipping = 64;  // of longer rows few elements are in vectors of edges
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t stride = horizontal.stride;
  if (stride > 2 || vertical.stride != stride || horizontal.input_step != 1 || horizontal.output_step != 1) return 1;
  if (horizontal.output == 1 || horizontal.output > (stride == 2 ? kLongSkipping : kLong)) return 1;
  if (width() > kElements || width() > 2 * stride * horizontal.output) return 1;
  const std::int64_t reach = (vertical.window - 1) * vertical.dilation + 1, present = kElements / width();
  if (present < reach) return 1;
  const std::int64_t rows = std::min({(present - reach) / stride + 1, kResults / width(), vertical.output});
  // Of low bands most is copied several times.
  return 2 * rows * stride < reach && rows < vertical.output ? 1 : std::max<std::int64_t>(rows, 1);
}

void FloatBands::run(const float* plane, float* output, std::int64_t y, std::int64_t rows) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t reach = (vertical.window - 1) * vertical.dilation + 1;
  const std::int64_t first = vertical.position(y, 0), present = (rows - 1) * vertical.stride + reach;
  alignas(64) float copy[kElements];
  alignas(64) float results[kResults];
  const bool is_band = width() == vertical.input_step && width() <= horizontal.input && horizontal.padding == 0 &&
                       first >= 0 && first + present <= vertical.input;
  const float* band = is_band ? plane + first * width() : copy;
  if (!is_band) fill(plane, first, present, copy);
  rows_first_ ? pool_rows_first(band, rows, results) : pool(band, rows, results);
  if (function_ == FloatPool::averages) divide(results, y, rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(results + i * width(), horizontal.output, output + (y + i) * vertical.output_step);
  }
}

void FloatBands::pool(const float* band, std::int64_t rows, float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  pool_({.input = band,
         .rows = as_size(vertical.window),
         .row_step = vertical.dilation * width(),
         .length = ((rows - 1) * vertical.stride + 1) * width(),
         .first = 0,
         .taps = as_size(horizontal.window),
         .tap_step = horizontal.dilation,
         .step = horizontal.stride,
         .count = as_size((rows - 1) * width() + horizontal.output),
         .output = results});
}

void FloatBands::pool_rows_first(const float* band, std::int64_t rows, float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t present = (rows - 1) * vertical.stride + (vertical.window - 1) * vertical.dilation + 1;
  const std::int64_t row = width() / horizontal.stride;
  alignas(64) float of_rows[kElements];
  pool_({.input = band,
         .rows = 1,
         .row_step = 0,
         .length = present * width(),
         .first = 0,
         .taps = as_size(horizontal.window),
         .tap_step = horizontal.dilation,
         .step = horizontal.stride,
         .count = as_size((present - 1) * row + horizontal.output),
         .output = of_rows});
  const std::int64_t count = (rows - 1) * vertical.stride * row + horizontal.output;
  pool_({.input = of_rows,
         .rows = as_size(vertical.window),
         .row_step = vertical.dilation * row,
         .length = count,
         .first = 0,
         .taps = 1,
         .tap_step = 1,
         .step = 1,
         .count = as_size(count),
         .output = results});
}

// Rows of a plane from one on, which may be beside it, as columns may: these are what changes no result.
void FloatBands::fill(const float* plane, std::int64_t first, std::int64_t rows, float* band) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t before = std::min(horizontal.padding, width());
  const std::int64_t present = std::clamp<std::int64_t>(width() - before, 0, horizontal.input);
  const float outside = neutral_float(function_);
  for (std::int64_t row = first; row < first + rows; ++row, band += width()) {
    const bool is_inside = row >= 0 && row < vertical.input;
    float* end = std::fill_n(band, is_inside ? before : width(), outside);
    if (is_inside) end = std::copy_n(plane + row * vertical.input_step, present, end);
    std::fill(end, band + width(), outside);
  }
}

// Sums by the numbers of their taps: rows of windows with equally many rows of taps have the same.
void FloatBands::divide(float* sums, std::int64_t y, std::int64_t rows) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t begin = std::clamp<std::int64_t>(whole_columns_.begin, 0, horizontal.output);
  const std::int64_t end = std::clamp(whole_columns_.end, begin, horizontal.output);
  const auto is_whole = [&](std::int64_t index) { return vertical.taps(index).count() == vertical.window; };
  const bool are_whole = end - begin == horizontal.output && is_whole(y) && is_whole(y + rows - 1);
  const bool repeats = geometry_.include_padding || are_whole;
  alignas(64) float divisors[kResults];
  if (repeats) *divisors = geometry_.divisor(vertical.window * horizontal.window);
  for (std::int64_t i = 0, before = -1; i < (repeats ? 0 : rows); ++i) {
    const IndexRange taps = vertical.taps(y + i);
    const std::int64_t tap_rows = taps.end - taps.begin;
    float* row = divisors + i * width();
    if (tap_rows == std::exchange(before, tap_rows)) {
      std::copy_n(row - width(), width(), row);
      continue;
    }
    std::fill_n(row, width(), geometry_.divisor(tap_rows * horizontal.window));
    const auto fill_cut = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t x = from; x < to; ++x) {
        const IndexRange columns = horizontal.taps(x);
        row[x] = geometry_.divisor(tap_rows * (columns.end - columns.begin));
      }
    };
    fill_cut(0, begin);
    fill_cut(end, horizontal.output);
  }
  divide_({.a = sums,
           .b = divisors,
           .a_repeats = false,
           .b_repeats = repeats,
           .output = sums,
           .count = as_size((rows - 1) * width() + horizontal.output)});
}

}  // namespace dmlcpu
