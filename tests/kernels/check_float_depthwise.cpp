#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include "check.h"

namespace dmlcpu::test {
namespace {

std::vector<float> draw(Check& check, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(check.below(1 << 24)) - 0x1p23f, static_cast<int>(check.below(40)) - 40);
  }
  return values;
}

// Of a relu, of a clip, also by bounds that change places, and of no number; or none.
std::optional<FloatBounds> draw_bounds(Check& check) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  constexpr FloatBounds kBounds[] = {{0.0f, kInfinity}, {-0x1p-12f, 0x1p-14f}, {0.25f, -0.25f},
                                     {-0.0f, 0.0f},     {kNone, 0.0f},         {0.0f, kNone}};
  if (check.one_in(2)) return std::nullopt;
  return kBounds[check.below(std::size(kBounds))];
}

float clipped(float x, const std::optional<FloatBounds>& bounds) {
  if (!bounds) return x;
  const float raised = bounds->lower > x ? bounds->lower : x;
  return bounds->upper < raised ? bounds->upper : raised;
}

// Every tap in guarded memory of its own, some of them repeated for all pixels.
void check_run(Check& check, std::size_t tap_count, std::size_t pixels, std::size_t channels, Edge edge) {
  const std::size_t filter_stride = channels + check.below(3), stride = channels + check.below(3);
  const std::vector<float> filter = draw(check, (tap_count - 1) * filter_stride + channels);
  const std::vector<float> bias = draw(check, channels);
  const bool has_bias = check.one_in(2);
  const std::size_t first = check.below(20);
  std::vector<float> expected = draw(check, (pixels - 1) * stride + channels);
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) expected[p * stride + c] = has_bias ? bias[c] : 0.0f;
  }
  const std::optional<FloatBounds> bounds = draw_bounds(check);
  std::deque<GuardedBuffer<float>> inputs;  // which stay where they are
  std::vector<FloatDepthwiseTap> taps;
  for (std::size_t t = 0; t < tap_count; ++t) {
    const std::size_t step = check.one_in(3) ? 0 : first + channels + check.below(2);
    const std::vector<float> input = draw(check, (pixels - 1) * step + first + channels);
    inputs.emplace_back(input, edge);
    taps.push_back({inputs.back().data(), step});
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t c = 0; c < channels; ++c) {
        float& sum = expected[p * stride + c];
        sum = std::fma(input[p * step + first + c], filter[t * filter_stride + c], sum);
      }
    }
  }
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) expected[p * stride + c] = clipped(expected[p * stride + c], bounds);
  }
  const GuardedBuffer<float> guarded_filter(filter, edge), guarded_bias(bias, edge), output(expected.size(), edge);
  std::memcpy(output.data(), expected.data(), expected.size() * sizeof(float));
  for (std::size_t p = 0; p < pixels; ++p) std::fill_n(output.data() + p * stride, channels, -1.0f);
  check.table.float_depthwise->convolve({.taps = taps.data(),
                                         .tap_count = tap_count,
                                         .filter = guarded_filter.data(),
                                         .filter_row_stride = filter_stride,
                                         .bias = has_bias ? guarded_bias.data() : nullptr,
                                         .pixels = pixels,
                                         .first_channel = first,
                                         .channels = channels,
                                         .output = output.data(),
                                         .output_pixel_stride = stride,
                                         .bounds = bounds ? &*bounds : nullptr});
  check.equal(output, expected);
}

struct Windows {
  std::size_t columns, stride, pixels, channels;
};

// Every row of the image in guarded memory of its own, some of them padding. What an image has beside the windows, and
// these beside it, differs from case to case.
void check_windows(Check& check, const Windows& windows, Edge edge) {
  const std::size_t rows = 1 + check.below(4), reach = (windows.pixels - 1) * windows.stride + windows.columns;
  const std::size_t image_columns = 1 + check.below(reach + 4);
  const std::ptrdiff_t first_column = check.one_in(2) ? -static_cast<std::ptrdiff_t>(check.below(windows.columns + 2))
                                                      : static_cast<std::ptrdiff_t>(check.below(3));
  constexpr std::size_t kFewPlaces = 256;  // steps of whole ones are walked in lines of several vectors
  const std::size_t first = check.below(20), end = first + windows.channels;
  const std::size_t step = check.one_in(3) ? end + kFewPlaces - 1 - (end - 1) % kFewPlaces : end + check.below(2);
  const std::size_t filter_stride = windows.channels + check.below(3), stride = windows.channels + check.below(3);
  const std::vector<float> filter = draw(check, (rows * windows.columns - 1) * filter_stride + windows.channels);
  const std::vector<float> bias = draw(check, windows.channels);
  const bool has_bias = check.one_in(2);
  const std::optional<FloatBounds> bounds = draw_bounds(check);
  std::deque<GuardedBuffer<float>> image;  // which stay where they are
  std::vector<const float*> image_rows;
  for (std::size_t i = 0; i < rows; ++i) {
    image.emplace_back(draw(check, (image_columns - 1) * step + first + windows.channels), edge);
    image_rows.push_back(check.one_in(4) ? nullptr : image.back().data());
  }
  std::vector<float> expected = draw(check, (windows.pixels - 1) * stride + windows.channels);
  const GuardedBuffer<float> guarded_filter(filter, edge), guarded_bias(bias, edge), output(expected.size(), edge);
  std::memcpy(output.data(), expected.data(), expected.size() * sizeof(float));
  for (std::size_t p = 0; p < windows.pixels; ++p) {
    for (std::size_t c = 0; c < windows.channels; ++c) {
      float& sum = expected[p * stride + c];
      sum = has_bias ? bias[c] : 0.0f;
      for (std::size_t tap = 0; tap < rows * windows.columns; ++tap) {
        const float* row = image_rows[tap / windows.columns];
        const std::ptrdiff_t column =
            first_column + static_cast<std::ptrdiff_t>(p * windows.stride + tap % windows.columns);
        const bool inside = row != nullptr && column >= 0 && column < static_cast<std::ptrdiff_t>(image_columns);
        const float input = inside ? row[static_cast<std::size_t>(column) * step + first + c] : 0.0f;
        sum = std::fma(input, filter[tap * filter_stride + c], sum);
      }
      sum = clipped(sum, bounds);
    }
    std::fill_n(output.data() + p * stride, windows.channels, -1.0f);
  }
  check.table.float_depthwise->convolve_windows({.image_rows = image_rows.data(),
                                                 .image_columns = image_columns,
                                                 .image_step = step,
                                                 .first_column = first_column,
                                                 .stride = windows.stride,
                                                 .rows = rows,
                                                 .columns = windows.columns,
                                                 .filter = guarded_filter.data(),
                                                 .filter_row_stride = filter_stride,
                                                 .bias = has_bias ? guarded_bias.data() : nullptr,
                                                 .pixels = windows.pixels,
                                                 .first_channel = first,
                                                 .channels = windows.channels,
                                                 .output = output.data(),
                                                 .output_pixel_stride = stride,
                                                 .bounds = bounds ? &*bounds : nullptr});
  check.equal(output, expected);
}

void check_every_window(Check& check) {
  for (const std::size_t columns : Sizes{3, 5, 7, 9}) {
    for (const std::size_t stride : Sizes{1, 2}) {
      for (std::size_t pixels = 1; pixels <= 18; ++pixels) {
        for (const std::size_t channels : Sizes{1, 7, 8, 15, 16, 17, 33}) {
          const Edge edge = kEdges[check.below(std::size(kEdges))];
          describe_case("float depthwise columns %zu, stride %zu, pixels %zu, channels %zu, edge %d", columns, stride,
                        pixels, channels, static_cast<int>(edge));
          check_windows(check, {columns, stride, pixels, channels}, edge);
        }
      }
    }
  }
}

}  // namespace

void check_float_depthwise(Check& check) {
  check_every_window(check);
  for (const std::size_t channels : run_lengths()) {
    if (channels == 0) continue;
    for (const std::size_t tap_count : Sizes{1, 2, 9}) {
      for (const Edge edge : kEdges) {
        const std::size_t pixels = 1 + check.below(9);
        describe_case("float depthwise taps %zu, pixels %zu, channels %zu, edge %d", tap_count, pixels, channels,
                      static_cast<int>(edge));
        check_run(check, tap_count, pixels, channels, edge);
      }
    }
  }
}

}  // namespace dmlcpu::test
