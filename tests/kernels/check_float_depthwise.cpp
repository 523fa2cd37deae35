#include <algorithm>
#include <cmath>
#include <deque>

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
                                         .output_pixel_stride = stride});
  check.equal(output, expected);
}

}  // namespace

void check_float_depthwise(Check& check) {
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
