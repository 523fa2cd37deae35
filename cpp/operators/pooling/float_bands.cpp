#include "operators/pooling/float_bands.h"

#include <algorithm>
#include <utility>

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// A multiple of the stride, so that the windows of all rows are one run.
std::int64_t width_of_row(const PoolingAxis& axis) {
  return divide_up((axis.output - 1) * axis.stride + axis.reach(), axis.stride) * axis.stride;
}

}  // namespace

FloatBands::FloatBands(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target)
    : geometry_(geometry),
      function_(function),
      width_(width_of_row(geometry.axes[2])),
      // Of 2x2 windows, of single rows and of single columns there are as many comparisons by either order.
      rows_first_(!adds(function) && std::min(geometry.axes[1].window, geometry.axes[2].window) > 1 &&
                  std::max(geometry.axes[1].window, geometry.axes[2].window) > 2),
      whole_columns_(geometry.axes[2].whole_windows()),
      pool_(window_kernels(function, target).runs) {}

std::int64_t FloatBands::rows() const {
  // Of longer rows few elements are in vectors of edges; extremes of skipping windows are compared less often in bands.
  constexpr std::int64_t kLong = 192, kLongSkipping = 64, kLongOfExtremes = 112;
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t stride = horizontal.stride;
  if (stride > 2 || vertical.stride != stride || horizontal.input_step != 1 || horizontal.output_step != 1) return 1;
  const std::int64_t most = stride == 1 ? kLong : adds(function_) ? kLongSkipping : kLongOfExtremes;
  if (horizontal.output == 1 || horizontal.output > most) return 1;
  if (width_ > kElements || width_ > 2 * stride * horizontal.output) return 1;
  const std::int64_t reach = vertical.reach(), present = kElements / width_;
  if (present < reach) return 1;
  const std::int64_t rows = std::min({(present - reach) / stride + 1, kResults / width_, vertical.output});
  // Of low bands most is copied several times.
  return 2 * rows * stride < reach && rows < vertical.output ? 1 : std::max<std::int64_t>(rows, 1);
}

void FloatBands::run(const float* plane, float* output, std::int64_t y, std::int64_t rows) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t reach = vertical.reach();
  const std::int64_t first = vertical.position(y, 0), present = (rows - 1) * vertical.stride + reach;
  alignas(64) float copy[kElements];
  alignas(64) float results[kResults];
  const bool is_band = width_ == vertical.input_step && width_ <= horizontal.input && horizontal.padding == 0 &&
                       first >= 0 && first + present <= vertical.input;
  const float* band = is_band ? plane + first * width_ : copy;
  if (!is_band) fill(plane, first, present, copy);
  if (rows_first_) {
    pool_rows_first(band, rows, results);
  } else if (adds(function_)) {
    alignas(64) float divisors[kResults];
    const bool repeats = fill_divisors(y, rows, divisors);
    pool(band, rows, {.values = divisors, .repeats = repeats}, results);
  } else {
    pool(band, rows, {}, results);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(results + i * width_, horizontal.output, output + (y + i) * vertical.output_step);
  }
}

void FloatBands::pool(const float* band, std::int64_t rows, const Divisors& divisors, float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  pool_({.input = band,
         .rows = as_size(vertical.window),
         .row_step = vertical.dilation * width_,
         .length = ((rows - 1) * vertical.stride + 1) * width_,
         .first = 0,
         .taps = as_size(horizontal.window),
         .tap_step = horizontal.dilation,
         .step = horizontal.stride,
         .count = as_size((rows - 1) * width_ + horizontal.output),
         .output = results,
         .divisors = divisors.values,
         .divisor_repeats = divisors.repeats});
}

void FloatBands::pool_rows_first(const float* band, std::int64_t rows, float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t present = (rows - 1) * vertical.stride + vertical.reach();
  const std::int64_t row = width_ / horizontal.stride;
  alignas(64) float of_rows[kElements];
  pool_({.input = band,
         .rows = 1,
         .row_step = 0,
         .length = present * width_,
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
  const std::int64_t before = std::min(horizontal.padding, width_);
  const std::int64_t present = std::clamp<std::int64_t>(width_ - before, 0, horizontal.input);
  const float outside = neutral_float(function_);
  for (std::int64_t row = first; row < first + rows; ++row, band += width_) {
    const bool is_inside = row >= 0 && row < vertical.input;
    float* end = std::fill_n(band, is_inside ? before : width_, outside);
    if (is_inside) end = std::copy_n(plane + row * vertical.input_step, present, end);
    std::fill(end, band + width_, outside);
  }
}

// Rows of windows with equally many rows of taps have the same.
bool FloatBands::fill_divisors(std::int64_t y, std::int64_t rows, float* divisors) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const std::int64_t begin = std::clamp<std::int64_t>(whole_columns_.begin, 0, horizontal.output);
  const std::int64_t end = std::clamp(whole_columns_.end, begin, horizontal.output);
  const auto is_whole = [&](std::int64_t index) { return vertical.taps(index).count() == vertical.window; };
  const bool are_whole = end - begin == horizontal.output && is_whole(y) && is_whole(y + rows - 1);
  const bool repeats = geometry_.include_padding || are_whole;
  if (repeats) *divisors = geometry_.divisor(vertical.window * horizontal.window);
  for (std::int64_t i = 0, before = -1; i < (repeats ? 0 : rows); ++i) {
    const IndexRange taps = vertical.taps(y + i);
    const std::int64_t tap_rows = taps.end - taps.begin;
    float* row = divisors + i * width_;
    if (tap_rows == std::exchange(before, tap_rows)) {
      std::copy_n(row - width_, width_, row);
      continue;
    }
    std::fill_n(row, width_, geometry_.divisor(tap_rows * horizontal.window));
    const auto fill_cut = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t x = from; x < to; ++x) {
        const IndexRange columns = horizontal.taps(x);
        row[x] = geometry_.divisor(tap_rows * (columns.end - columns.begin));
      }
    };
    fill_cut(0, begin);
    fill_cut(end, horizontal.output);
  }
  return repeats;
}

PoolingGeometry with_joined_planes(const PoolingGeometry& of_planes, FloatPool function,
                                   const ExecutionTarget& target) {
  constexpr std::int64_t kMostRows = std::int64_t{1} << 32;  // as of any plane: no position overflows
  PoolingGeometry geometry = of_planes;
  PoolingAxis& vertical = geometry.axes[1];
  const bool is_tiled = vertical.padding == 0 && vertical.output * vertical.stride == vertical.input &&
                        (vertical.window - 1) * vertical.dilation < vertical.stride;
  const bool adjoin = geometry.input_channel_step == vertical.input * vertical.input_step &&
                      geometry.output_channel_step == vertical.output * vertical.output_step;
  const bool has_lanes = target.kernels().float_pool->lanes > 1;
  if (!has_lanes || !is_tiled || !adjoin || geometry.channels > kMostRows / vertical.input) return of_planes;
  vertical.input *= geometry.channels;
  vertical.output *= geometry.channels;
  geometry.channels = 1;
  return FloatBands(geometry, function, target).rows() > 1 ? geometry : of_planes;
}

}  // namespace dmlcpu
