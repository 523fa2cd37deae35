#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t taps[3];
  std::size_t pixels, channels;
};

// The arrays of PoolParameters, and zero points and scales of which many are extreme.
struct Parameters {
  std::vector<float> input_zero_point, input_scale, output_scale, output_zero_point;

  Parameters(Check& check, std::size_t channels) {
    // Scales are ordinary as often as not, so that whole vectors take the quick way, and often all the same, so that
    // many averages are half-way between two codes.
    const bool ordinary = check.one_in(2), same = check.one_in(3);
    const float shared = 0.001f * static_cast<float>(1 + check.below(3000));
    const auto scale = [&] {
      if (same) return shared;
      return ordinary ? 0.001f * static_cast<float>(1 + check.below(3000)) : check.scale();
    };
    for (std::size_t c = 0; c < channels; ++c) {
      input_zero_point.push_back(check.zero_point());
      input_scale.push_back(scale());
      output_scale.push_back(scale());
      output_zero_point.push_back(check.zero_point());
    }
  }

  float value(std::uint8_t code, std::size_t channel, std::uint8_t flip) const {
    const float difference = static_cast<float>(code ^ flip) - input_zero_point[channel];
    return difference * input_scale[channel];
  }
};

struct GuardedParameters {
  GuardedBuffer<float> input_zero_point, input_scale, output_scale, output_zero_point;

  GuardedParameters(const Parameters& values, Edge edge)
      : input_zero_point(values.input_zero_point, edge),
        input_scale(values.input_scale, edge),
        output_scale(values.output_scale, edge),
        output_zero_point(values.output_zero_point, edge) {}

  PoolParameters pointers() const {
    return {input_zero_point.data(), input_scale.data(), output_scale.data(), output_zero_point.data()};
  }
};

// Elements from the first to the last that a run reads.
template <class Element>
std::size_t span(const PoolRun<Element>& run) {
  std::size_t last = (run.pixels - 1) * run.pixel_step + run.channels - 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (run.taps[i] == 0) return 0;
    last += (run.taps[i] - 1) * run.tap_steps[i];
  }
  return last + 1;
}

template <class Element>
PoolRun<Element> described_run(Check& check, const Shape& shape) {
  PoolRun<Element> run = {};
  std::size_t taps = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    run.taps[i] = shape.taps[i];
    run.tap_steps[i] = check.below(3 * shape.channels);
    taps *= shape.taps[i];
  }
  run.count = static_cast<float>(check.one_in(2) ? taps : check.below(1U << (1 + check.below(24))));
  run.pixels = shape.pixels;
  run.pixel_step = check.below(2 * shape.channels);
  run.channels = shape.channels;
  run.flip = check.flip();
  run.output_pixel_step = shape.channels + check.below(2) * 3;
  return run;
}

template <class Element, class ValueOf>
void check_average(Check& check, PoolRun<Element> run, const Parameters& parameters,
                   const std::vector<Element>& elements, Edge edge, void (*average)(const PoolRun<Element>&) noexcept,
                   const ValueOf& value_of) {
  const GuardedParameters guarded(parameters, edge);
  const GuardedBuffer<Element> input(elements, edge);
  const GuardedBuffer<std::uint8_t> output((run.pixels - 1) * run.output_pixel_step + run.channels, edge);
  run.input = input.data();
  run.parameters = guarded.pointers();
  run.output = output.data();
  average(run);

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    for (std::size_t channel = 0; channel < run.channels; ++channel) {
      float sum = 0.0f;
      for (std::size_t tap = 0; tap < run.taps[0] * run.taps[1] * run.taps[2]; ++tap) {
        const std::size_t index[3] = {tap / run.taps[2] / run.taps[1], tap / run.taps[2] % run.taps[1],
                                      tap % run.taps[2]};
        std::size_t place = pixel * run.pixel_step + channel;
        for (std::size_t i = 0; i < 3; ++i) place += index[i] * run.tap_steps[i];
        sum += value_of(elements[place], channel);
      }
      const float mean = sum / run.count;
      expected[pixel * run.output_pixel_step + channel] =
          reference_code(mean / parameters.output_scale[channel], parameters.output_zero_point[channel], run.flip);
    }
  }
  check.equal(output, expected);
}

void check_codes(Check& check, const Shape& shape, Edge edge) {
  const auto run = described_run<std::uint8_t>(check, shape);
  const Parameters parameters(check, shape.channels);
  std::vector<std::uint8_t> codes(span(run));
  for (std::uint8_t& code : codes) code = check.code();
  check_average(check, run, parameters, codes, edge, check.table.pool->average_codes,
                [&](std::uint8_t code, std::size_t channel) { return parameters.value(code, channel, run.flip); });
}

void check_values(Check& check, const Shape& shape, Edge edge) {
  const auto run = described_run<float>(check, shape);
  const Parameters parameters(check, shape.channels);
  std::vector<float> values(span(run));
  const bool ordinary = check.one_in(2);
  for (float& value : values) value = ordinary ? 0.1f * static_cast<float>(check.code()) - 9.0f : check.number();
  check_average(check, run, parameters, values, edge, check.table.pool->average_values,
                [](float value, std::size_t) { return value; });
}

void check_dequantize(Check& check, std::size_t pixels, std::size_t channels, Edge edge) {
  const std::size_t step = check.below(2 * channels), value_step = channels + check.below(2) * 5;
  const std::uint8_t flip = check.flip();
  const Parameters parameters(check, channels);
  std::vector<std::uint8_t> codes((pixels - 1) * step + channels);
  for (std::uint8_t& code : codes) code = check.code();
  const GuardedParameters guarded(parameters, edge);
  const GuardedBuffer<std::uint8_t> input(codes, edge);
  const GuardedBuffer<float> values((pixels - 1) * value_step + channels, edge);
  check.table.pool->dequantize({.codes = input.data(),
                                .pixel_step = step,
                                .pixels = pixels,
                                .channels = channels,
                                .parameters = guarded.pointers(),
                                .flip = flip,
                                .values = values.data(),
                                .value_pixel_step = value_step});
  std::vector<float> expected = canaries<float>(values.size());
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      expected[pixel * value_step + c] = parameters.value(codes[pixel * step + c], c, flip);
    }
  }
  check.equal(values, expected);
}

// Whole planes, of which the kernel may take sums of integers: averages at or beside half-way points as often as not.
void check_planes(Check& check, std::size_t taps, std::size_t channels, Edge edge) {
  const std::size_t step = taps + check.below(2) * 5;
  Parameters parameters(check, channels);
  PoolPlanes run = {.input = nullptr,
                    .channel_step = step,
                    .taps = taps,
                    .count = static_cast<float>(check.one_in(4) ? check.below(1U << (1 + check.below(24))) : taps),
                    .channels = channels,
                    .parameters = {},
                    .flip = check.flip(),
                    .output = nullptr};
  std::vector<std::uint8_t> codes((channels - 1) * step + taps);
  for (std::uint8_t& code : codes) code = check.code();
  std::vector<std::uint8_t> expected;
  const bool at_ties = check.one_in(2);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    float sum = 0.0f;
    for (std::size_t tap = 0; tap < taps; ++tap)
      sum += parameters.value(codes[channel * step + tap], channel, run.flip);
    float& scale = parameters.output_scale[channel];
    const float tie = sum / run.count / (static_cast<float>(check.below(200)) + 0.5f);
    if (at_ties && tie > 0.0f) scale = tie;
    expected.push_back(reference_code(sum / run.count / scale, parameters.output_zero_point[channel], run.flip));
  }
  const GuardedParameters guarded(parameters, edge);
  const GuardedBuffer<std::uint8_t> input(codes, edge), output(channels, edge);
  run.input = input.data();
  run.parameters = guarded.pointers();
  run.output = output.data();
  check.table.pool->average_planes(run);
  check.equal(output, expected);
}

// The quotient by the count is rounded by itself: sums of few bits divided by every count, then by scales that make
// each quotient, or a neighbour of it, half-way between two codes.
void check_counts(Check& check) {
  constexpr std::size_t kChannels = 64, kPixels = 2;
  for (std::size_t count = 1; count < 3000; count += 1 + check.below(3)) {
    describe_case("pool counts, count %zu", count);
    std::vector<float> sums(kChannels * kPixels);
    Parameters parameters(check, kChannels);
    for (std::size_t c = 0; c < kChannels; ++c) {
      const float sum = static_cast<float>(check.word() % 0xffffff) * 0x1p-12f;
      const float half = static_cast<float>(check.below(200)) + 0.5f;
      sums[c] = sums[kChannels + c] = sum;
      parameters.output_scale[c] = sum / static_cast<float>(count) / half;
      if (!(parameters.output_scale[c] > 0.0f)) parameters.output_scale[c] = 1.0f;
    }
    const PoolRun<float> run = {.input = nullptr,
                                .taps = {1, 1, 1},
                                .tap_steps = {},
                                .count = static_cast<float>(count),
                                .pixels = kPixels,
                                .pixel_step = kChannels,
                                .channels = kChannels,
                                .parameters = {},
                                .flip = 0,
                                .output = nullptr,
                                .output_pixel_step = kChannels};
    check_average(check, run, parameters, sums, Edge::end, check.table.pool->average_values,
                  [](float value, std::size_t) { return value; });
  }
}

}  // namespace

void check_pool(Check& check) {
  const std::size_t taps[][3] = {{1, 1, 1}, {1, 2, 2}, {1, 3, 3}, {2, 3, 2},  {1, 1, 9},   {3, 1, 1},
                                 {1, 0, 2}, {0, 1, 1}, {1, 7, 7}, {2, 5, 10}, {1, 16, 16}, {1, 1, 257}};
  for (const std::size_t (&window)[3] : taps) {
    for (const std::size_t channels :
         Sizes{1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 81, 128, 129, 271}) {
      for (const std::size_t pixels : Sizes{1, 2, 3, 5}) {
        for (const Edge edge : kEdges) {
          const Shape shape = {{window[0], window[1], window[2]}, pixels, channels};
          describe_case("pool window %zu x %zu x %zu, pixels %zu, channels %zu, edge %d", window[0], window[1],
                        window[2], pixels, channels, static_cast<int>(edge));
          check_codes(check, shape, edge);
          check_values(check, shape, edge);
          check_dequantize(check, pixels, channels, edge);
        }
      }
    }
  }
  for (const std::size_t plane : Sizes{32,  33,  49,  63,  64,  65,  95,  96,  97,   127,  196,  511,
                                       512, 543, 544, 545, 575, 576, 577, 784, 1087, 3136, 65536}) {
    for (const std::size_t channels : Sizes{1, 7, 8, 9, 15, 16, 17, 33}) {
      for (const Edge edge : kEdges) {
        describe_case("pool planes of %zu, channels %zu, edge %d", plane, channels, static_cast<int>(edge));
        check_planes(check, plane, channels, edge);
      }
    }
  }
  check_counts(check);
}

}  // namespace dmlcpu::test
