#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

float near_mean(const std::vector<float>& x) {
  const std::size_t count = x.size(), whole = count - count % 32;
  float sums[32] = {};
  for (std::size_t i = 0; i < whole; ++i) sums[i % 32] += x[i];
  float halves[16];
  for (std::size_t j = 0; j < 16; ++j) halves[j] = sums[j] + sums[j + 16];
  for (std::size_t i = whole; i < count; ++i) halves[i % 16] += x[i];
  return reference_folded(halves) * (1.0f / static_cast<float>(count));
}

// What is multiplied by a weight.
std::vector<float> normalized(const std::vector<float>& x, float epsilon, bool uses_mean) {
  const float length = static_cast<float>(x.size());
  const float near = uses_mean ? near_mean(x) : 0.0f;
  float sums[16] = {}, squares[16] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums[i % 16] += x[i] - near;
    squares[i % 16] = std::fma(x[i] - near, x[i] - near, squares[i % 16]);
  }
  const float error = uses_mean ? reference_folded(sums) / length : 0.0f;
  float radicand = reference_folded(squares) / length + epsilon;
  if (uses_mean) radicand = std::fma(-error, error, radicand);
  if (uses_mean && radicand < epsilon) radicand = epsilon;
  const float inverse = 1.0f / std::sqrt(radicand);
  std::vector<float> results(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) results[i] = ((x[i] - near) - error) * inverse;
  return results;
}

std::vector<float> row_of_floats(Check& check, std::size_t count, bool special) {
  std::vector<float> x(count);
  for (float& value : x) value = special ? check.number() : check.near_tie(0.1f);
  if (check.one_in(8)) std::fill(x.begin(), x.end(), x.front());
  return x;
}

void check_floats(Check& check, std::size_t count, Edge edge, bool in_place) {
  const bool special = check.one_in(4), uses_mean = check.one_in(2);
  const std::vector<float> x = row_of_floats(check, count, special);
  std::vector<float> weights(count), biases(count);
  for (float& value : weights) value = special ? check.number() : check.near_tie(0.01f);
  for (float& value : biases) value = check.near_tie(0.1f);
  const float epsilon = check.one_in(2) ? 1e-5f : 0.0f;
  std::vector<float> expected = normalized(x, epsilon, uses_mean);
  for (std::size_t i = 0; i < count; ++i) expected[i] = std::fma(expected[i], weights[i], biases[i]);

  const GuardedBuffer<float> input(x, edge), weight(weights, edge), bias(biases, edge), output(count, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  check.table.layer_normalization->floats({.input = in_place ? output.data() : input.data(),
                                           .output = output.data(),
                                           .count = count,
                                           .weight = weight.data(),
                                           .bias = bias.data(),
                                           .epsilon = epsilon,
                                           .uses_mean = uses_mean});
  check.equal_but_for_nans(output, expected);
}

void check_group(Check& check, std::size_t channels, std::size_t count, Edge edge, bool in_place) {
  const bool special = check.one_in(4);
  const std::vector<float> x = row_of_floats(check, channels * count, special);
  std::vector<float> weights(channels), biases(channels);
  for (float& value : weights) value = special ? check.number() : check.near_tie(0.01f);
  for (float& value : biases) value = check.near_tie(0.1f);
  const float epsilon = check.one_in(2) ? 1e-5f : 0.0f;
  std::vector<float> expected = normalized(x, epsilon, true);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = expected[i] * weights[i / count] + biases[i / count];

  const GuardedBuffer<float> input(x, edge), weight(weights, edge), bias(biases, edge), output(x.size(), edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  check.table.layer_normalization->float_group({.input = in_place ? output.data() : input.data(),
                                                .output = output.data(),
                                                .channels = channels,
                                                .count = count,
                                                .weight = weight.data(),
                                                .bias = bias.data(),
                                                .epsilon = epsilon});
  check.equal_but_for_nans(output, expected);
}

void check_sum(Check& check, std::size_t count, Edge edge) {
  const std::vector<float> x = row_of_floats(check, count, check.one_in(4));
  float sums[16] = {};
  for (std::size_t i = 0; i < count; ++i) sums[i % 16] += x[i];
  const GuardedBuffer<float> input(x, edge), sum(1, edge);
  *sum.data() = check.table.layer_normalization->sum(input.data(), count);
  check.equal_but_for_nans(sum, {reference_folded(sums)});
}

// Rows with gaps between them.
void check_columns(Check& check, std::size_t columns, std::size_t count, std::size_t gap, Edge edge) {
  const std::size_t step = columns + gap;
  const bool special = check.one_in(4);
  const float divisor = check.one_in(2) ? static_cast<float>(count) : 1.0f;
  std::vector<float> x(count * step - gap), expected(columns);
  for (float& value : x) value = special ? check.number() : check.near_tie(0.1f);
  for (std::size_t c = 0; c < columns; ++c) {
    float sums[16] = {};
    for (std::size_t i = 0; i < count; ++i) sums[i % 16] += x[i * step + c];
    expected[c] = reference_folded(sums) / divisor;
  }
  const GuardedBuffer<float> input(x, edge), quotients(columns, edge);
  check.table.layer_normalization->column_quotients({.input = input.data(),
                                                     .step = step,
                                                     .count = count,
                                                     .columns = columns,
                                                     .divisor = divisor,
                                                     .quotients = quotients.data()});
  check.equal_but_for_nans(quotients, expected);
}

void check_codes(Check& check, std::size_t count, Edge edge, bool in_place) {
  std::vector<std::uint8_t> codes(count), expected(count);
  std::vector<float> weights(count), biases(count);
  for (std::uint8_t& code : codes) code = check.code();
  for (float& value : weights) value = check.one_in(8) ? check.number() : check.near_tie(0.25f);
  for (float& value : biases) value = check.near_tie(1.0f);
  const std::uint8_t input_flip = check.flip(), output_flip = check.flip();
  const float factor = check.one_in(4) ? check.number() : 0.015625f, zero_point = check.zero_point();
  const float offset = check.one_in(4) ? check.number() : -2.0f;
  std::uint64_t sum = 0, sum_of_squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int code = codes[i] ^ input_flip;
    sum += static_cast<std::uint64_t>(code);
    sum_of_squares += static_cast<std::uint64_t>(code * code);
    const float normalized = std::fma(static_cast<float>(code), factor, offset);
    expected[i] = reference_code(std::fma(normalized, weights[i], biases[i]), zero_point, output_flip);
  }

  const GuardedBuffer<std::uint8_t> input(codes, edge), output(count, edge);
  const GuardedBuffer<float> weight(weights, edge), bias(biases, edge);
  const CodeMoments moments = check.table.layer_normalization->moments(input.data(), count, input_flip);
  check.expect(moments.sum == sum && moments.sum_of_squares == sum_of_squares);
  if (in_place) std::copy(codes.begin(), codes.end(), output.data());
  check.table.layer_normalization->codes({.input = in_place ? output.data() : input.data(),
                                          .output = output.data(),
                                          .count = count,
                                          .weight = weight.data(),
                                          .bias = bias.data(),
                                          .factor = factor,
                                          .offset = offset,
                                          .input_flip = input_flip,
                                          .output_zero_point = zero_point,
                                          .output_flip = output_flip});
  check.equal(output, expected);
}

// Pixels with gaps between them; what lies there stays.
void check_channels(Check& check, std::size_t channels, std::size_t pixels, std::size_t gap, Edge edge, bool in_place) {
  const std::size_t step = channels + gap, span = pixels * step - gap;
  std::vector<std::uint8_t> codes(span), expected(span, 0x55);
  std::vector<float> factors(channels), offsets(channels);
  std::vector<std::uint32_t> sums(channels, 7), squares(channels, 9);
  for (std::uint8_t& code : codes) code = check.code();
  for (float& value : factors) value = check.one_in(8) ? check.number() : check.near_tie(0.25f);
  for (float& value : offsets) value = check.one_in(8) ? check.number() : check.near_tie(1.0f);
  const std::uint8_t input_flip = check.flip(), output_flip = check.flip();
  const float zero_point = check.zero_point();
  const GuardedBuffer<std::uint8_t> input(codes, edge), output(span, edge);
  const GuardedBuffer<std::uint32_t> found_sums(channels, edge), found_squares(channels, edge);
  std::copy(sums.begin(), sums.end(), found_sums.data());
  std::copy(squares.begin(), squares.end(), found_squares.data());
  if (in_place) expected = codes;
  std::copy(expected.begin(), expected.end(), output.data());
  for (std::size_t i = 0; i < span; ++i) {
    const std::size_t c = i % step;
    if (c >= channels) continue;
    const auto code = static_cast<std::uint32_t>(codes[i] ^ input_flip);
    sums[c] += code;
    squares[c] += code * code;
    expected[i] = reference_code(std::fma(static_cast<float>(code), factors[c], offsets[c]), zero_point, output_flip);
  }

  const GuardedBuffer<float> factor(factors, edge), offset(offsets, edge);
  const LayerNormalizationKernels& kernels = *check.table.layer_normalization;
  ChannelCodes run = {input.data(), step, pixels, channels, input_flip};
  kernels.channel_moments(run, found_sums.data(), found_squares.data());
  check.equal(found_sums, sums);
  check.equal(found_squares, squares);
  if (in_place) run.codes = output.data();
  kernels.channels({.input = run,
                    .output = output.data(),
                    .output_pixel_step = step,
                    .factor = factor.data(),
                    .offset = offset.data(),
                    .output_zero_point = zero_point,
                    .output_flip = output_flip});
  check.equal(output, expected);
}

// What lanes of 32 bits hold at most.
void check_most_pixels(Check& check) {
  constexpr std::size_t kPixels = std::size_t{1} << 16, kChannels = 3;
  const GuardedBuffer<std::uint8_t> codes(std::vector<std::uint8_t>(kPixels * kChannels, 255), Edge::end);
  const GuardedBuffer<std::uint32_t> sums(kChannels, Edge::end), squares(kChannels, Edge::end);
  std::fill_n(sums.data(), kChannels, 0U);
  std::fill_n(squares.data(), kChannels, 0U);
  check.table.layer_normalization->channel_moments({codes.data(), kChannels, kPixels, kChannels, 0}, sums.data(),
                                                   squares.data());
  check.equal(sums, std::vector<std::uint32_t>(kChannels, 255U << 16));
  check.equal(squares, std::vector<std::uint32_t>(kChannels, (255U * 255U) << 16));
}

}  // namespace

void check_layer_normalization(Check& check) {
  for (const std::size_t count : run_lengths()) {
    if (count == 0) continue;
    for (const Edge edge : kEdges) {
      for (const bool in_place : {false, true}) {
        describe_case("layer normalization, count %zu, edge %d, in place %d", count, static_cast<int>(edge), in_place);
        for (int repeat = 0; repeat < 4; ++repeat) {
          check_floats(check, count, edge, in_place);
          check_codes(check, count, edge, in_place);
          check_sum(check, count, edge);
          for (const std::size_t channels : {1U, 2U, 5U}) check_group(check, channels, count, edge, in_place);
        }
        for (const std::size_t rows : std::initializer_list<std::size_t>{1, 2, 9, 15, 16, 17, 40}) {
          describe_case("columns %zu, rows %zu, edge %d", count, rows, static_cast<int>(edge));
          if (!in_place) check_columns(check, count, rows, count % 3, edge);
        }
        for (const std::size_t pixels : std::initializer_list<std::size_t>{1, 2, 3, 4, 9}) {
          describe_case("channels %zu, pixels %zu, edge %d, in place %d", count, pixels, static_cast<int>(edge),
                        in_place);
          check_channels(check, count, pixels, count % 3, edge, in_place);
        }
      }
    }
  }
  check_most_pixels(check);
}

}  // namespace dmlcpu::test
