#include "operators/pooling/pooled_windows.h"

#include <algorithm>

#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "operators/strides/transposed_elements.h"

namespace dmlcpu {
namespace {

using Taps = PooledWindows::Taps;

bool is_halved(const Taps& taps) {
  constexpr std::int64_t kMostTaps = 1 << 10;
  return taps.rows.count() > kMostTaps / taps.columns.count();
}

bool is_empty(const Taps& taps) { return taps.rows.begin >= taps.rows.end || taps.columns.begin >= taps.columns.end; }

IndexRange common(const IndexRange& a, const IndexRange& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

bool PooledWindows::are_halved(const PoolingGeometry& geometry) {
  return is_halved({{0, geometry.axes[1].window}, {0, geometry.axes[2].window}});
}

Taps PooledWindows::Windows::inside_of(const Taps& taps) const {
  return {common(taps.rows, inside.rows), common(taps.columns, inside.columns)};
}

PooledWindows::PooledWindows(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target,
                             Layout layout)
    : geometry_(geometry),
      function_(function),
      target_(target),
      halves_(adds(function) && are_halved(geometry)),
      layout_(layout),
      whole_columns_(geometry.axes[2].whole_windows()) {}

void PooledWindows::pool(const Windows& windows, float* output) const noexcept {
  const auto& [depth, vertical, horizontal] = geometry_.axes;
  const Rows target_rows = {as_size(windows.columns.count()), windows.channels, horizontal.output_step,
                            geometry_.output_channel_step};
  ChunkBuffer buffer;
  auto* results = target_rows.contiguous() ? output : reinterpret_cast<float*>(buffer.bytes);
  ChunkBuffer divisors;
  const Divisors of_sums = divisors_of(windows, reinterpret_cast<float*>(divisors.bytes));
  if (halves_) {
    add_halves(windows, {{0, vertical.window}, {0, horizontal.window}}, results);
    divide(results, windows.count(), of_sums);
  } else {
    pool_taps(windows, windows.inside, of_sums, results);
  }
  if (!target_rows.contiguous()) {
    scatter(buffer, DataType::float32, output, target_rows, *target_.kernels().pack);
  }
}

void PooledWindows::add_halves(const Windows& windows, const Taps& taps, float* sums) const noexcept {
  if (!is_halved(taps)) return pool_taps(windows, windows.inside_of(taps), {}, sums);
  Taps first = taps, second = taps;
  IndexRange Taps::* const axis = taps.rows.count() > 1 ? &Taps::rows : &Taps::columns;
  const IndexRange whole = taps.*axis;
  (first.*axis).end = (second.*axis).begin = whole.begin + whole.count() / 2;
  if (is_empty(windows.inside_of(second))) return add_halves(windows, first, sums);
  if (is_empty(windows.inside_of(first))) return add_halves(windows, second, sums);
  add_halves(windows, first, sums);
  float others[kMostHalved];
  add_halves(windows, second, others);
  function(FloatBinary::add)(
      {.a = sums, .b = others, .a_repeats = false, .b_repeats = false, .output = sums, .count = windows.count()});
}

void PooledWindows::pool_taps(const Windows& windows, const Taps& taps, const Divisors& divisors,
                              float* results) const noexcept {
  const PoolingAxis& vertical = geometry_.axes[1];
  const float* input = windows.input + vertical.position(windows.y, taps.rows.begin) * vertical.input_step;
  if (layout_ == Layout::runs) return pool_run(input, windows, taps, divisors, results);
  layout_ == Layout::transposed ? pool_transposed(input, windows, results) : pool_staged(input, windows, taps, results);
  divide(results, windows.count(), divisors);
}

void PooledWindows::pool_run(const float* input, const Windows& windows, const Taps& taps, const Divisors& divisors,
                             float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  window_kernels(function_, target_)
      .runs({.input = input,
             .rows = as_size(taps.rows.count()),
             .row_step = vertical.dilation * vertical.input_step,
             .length = (horizontal.input - 1) * horizontal.input_step + static_cast<std::int64_t>(windows.channels),
             .first = horizontal.position(windows.columns.begin, taps.columns.begin) * horizontal.input_step,
             .taps = as_size(taps.columns.count()),
             .tap_step = horizontal.dilation * horizontal.input_step,
             .step = windows.columns.count() == 1 ? 1 : horizontal.stride,
             .count = windows.count(),
             .output = results,
             .divisors = divisors.values,
             .divisor_repeats = divisors.repeats});
}

void PooledWindows::pool_transposed(const float* input, const Windows& windows, float* results) const noexcept {
  const auto channels = static_cast<std::int64_t>(windows.channels);
  const std::int64_t taps = geometry_.axes[1].window * geometry_.axes[2].window;
  ChunkBuffer buffer;
  transpose_elements(*target_.kernels().pack, sizeof(float), input, geometry_.input_channel_step, channels, taps,
                     buffer.bytes, channels);
  window_kernels(function_, target_)
      .runs({.input = reinterpret_cast<const float*>(buffer.bytes),
             .rows = as_size(taps),
             .row_step = channels,
             .length = channels,
             .first = 0,
             .taps = 1,
             .tap_step = 1,
             .step = 1,
             .count = windows.channels,
             .output = results});
}

void PooledWindows::pool_staged(const float* input, const Windows& windows, const Taps& taps,
                                float* results) const noexcept {
  const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
  const FloatBinaryFunction combine = function(binary_function(function_));
  std::fill_n(results, windows.count(), neutral_float(function_));
  ChunkBuffer staged;
  for (std::int64_t i = 0; i < taps.rows.count(); ++i) {
    for (std::int64_t j = taps.columns.begin; j < taps.columns.end; ++j) {
      const IndexRange reached = inside(windows.columns, j);
      if (reached.begin == reached.end) continue;
      const float* tap = input + i * vertical.dilation * vertical.input_step +
                         horizontal.position(reached.begin, j) * horizontal.input_step;
      const Rows tap_rows = {as_size(reached.count()), windows.channels, horizontal.stride * horizontal.input_step,
                             geometry_.input_channel_step};
      const void* values = gather(tap, DataType::float32, tap_rows, *target_.kernels().pack, staged);
      float* reached_results = results + as_size(reached.begin - windows.columns.begin) * windows.channels;
      combine({.a = reached_results,
               .b = static_cast<const float*>(values),
               .a_repeats = false,
               .b_repeats = false,
               .output = reached_results,
               .count = tap_rows.rows * windows.channels});
    }
  }
}

FloatBinaryFunction PooledWindows::function(FloatBinary binary) const noexcept {
  return target_.kernels().float_functions->binary[static_cast<std::size_t>(binary)];
}

IndexRange PooledWindows::inside(IndexRange columns, std::int64_t tap) const noexcept {
  const PoolingAxis& axis = geometry_.axes[2];
  const std::int64_t first = axis.position(columns.begin, tap), last = axis.position(columns.end - 1, tap);
  if (first >= 0 && last < axis.input) return columns;
  const IndexRange found = indices_inside(first, axis.stride, axis.input, columns.count());
  return {columns.begin + found.begin, columns.begin + found.end};
}

PooledWindows::Divisors PooledWindows::divisors_of(const Windows& windows, float* values) const noexcept {
  if (!adds(function_)) return {};
  const IndexRange& columns = windows.columns;
  const std::size_t channels = windows.channels;
  const std::int64_t rows = windows.inside.rows.count();
  const PoolingAxis& axis = geometry_.axes[2];
  const auto begin = std::clamp(whole_columns_.begin, columns.begin, columns.end);
  const auto end = std::clamp(whole_columns_.end, begin, columns.end);
  const bool repeats = geometry_.include_padding || end - begin == columns.count();
  std::fill_n(values, repeats ? 1 : windows.count(), geometry_.divisor(rows * axis.window));
  const auto fill_cut = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t x = from; x < to; ++x) {
      const IndexRange taps = axis.taps(x);
      std::fill_n(values + as_size(x - columns.begin) * channels, channels, geometry_.divisor(rows * taps.count()));
    }
  };
  if (!repeats) fill_cut(columns.begin, begin);
  if (!repeats) fill_cut(end, columns.end);
  return {values, repeats};
}

void PooledWindows::divide(float* sums, std::size_t count, const Divisors& divisors) const noexcept {
  if (divisors.values == nullptr) return;
  function(FloatBinary::divide)({.a = sums,
                                 .b = divisors.values,
                                 .a_repeats = false,
                                 .b_repeats = divisors.repeats,
                                 .output = sums,
                                 .count = count});
}

}  // namespace dmlcpu
