#include <algorithm>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t groups, pixels, channels, gap;
  bool has_filter, ends_in_sums;
};

template <class T>
std::vector<T> draw(Check& check, std::size_t count, T (*value)(Check&)) {
  std::vector<T> values(count);
  for (T& element : values) element = value(check);
  return values;
}

// Four taps of a channel, two by two of one sign and of this sum in magnitude: up to 128 is what products with 0..255
// may add up to in 16 bits.
void draw_pairs(Check& check, int sum, std::int8_t* taps) {
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const int first = sum - 127 + static_cast<int>(check.below(static_cast<std::size_t>(255 - sum)));
    const int sign = check.one_in(2) ? -1 : 1;
    taps[2 * pair] = static_cast<std::int8_t>(sign * first);
    taps[2 * pair + 1] = static_cast<std::int8_t>(sign * (sum - first));
  }
}

struct Operands {
  Operands(Check& check, const Shape& shape)
      : padded((shape.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes),
        pixel_step(4 * check.below(3 * padded)),
        offsets(shape.groups) {
    for (std::size_t& of_group : offsets) of_group = 4 * check.below(2 * padded);
    const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());
    const auto code = [](Check& c) { return c.code(); };
    const auto signed_code = [](Check& c) { return static_cast<std::int8_t>(c.code()); };
    activations = draw<std::uint8_t>(check, furthest + (shape.pixels - 1) * pixel_step + padded * 4, code);
    filter = draw<std::int8_t>(check, shape.groups * padded * 4, signed_code);
    for (std::size_t group = 0; group < shape.groups; ++group) {
      if (check.one_in(3)) continue;
      const std::size_t larger = check.below(4 * padded);
      for (std::size_t channel = 0; channel < padded; ++channel) {
        draw_pairs(check, channel == larger ? 129 : 128, &filter[(group * padded + channel) * 4]);
      }
    }
    if (check.one_in(4)) std::fill(activations.begin(), activations.end(), std::uint8_t{255});
    taps = draw<std::int8_t>(check, shape.groups * 4,
                             [](Check& c) { return static_cast<std::int8_t>(c.one_in(4) ? 0 : 1); });
    offset =
        draw<std::int32_t>(check, padded, [](Check& c) { return static_cast<std::int32_t>(c.word() >> c.below(24)); });
    zero_point =
        draw<std::int32_t>(check, padded, [](Check& c) { return std::int32_t{static_cast<std::int8_t>(c.code())}; });
    multiplier = draw<float>(check, padded,
                             [](Check& c) { return c.one_in(4) ? c.scale() : 0.0001F * static_cast<float>(c.code()); });
    output_zero_point = check.zero_point();
    flip = check.flip();
  }

  std::int32_t sum(const Shape& shape, std::size_t pixel, std::size_t channel) const {
    std::int64_t sum = offset[channel], window = 0;
    for (std::size_t i = 0; i < shape.groups * 4; ++i) {
      const std::int64_t code = activations[pixel * pixel_step + offsets[i / 4] + channel * 4 + i % 4];
      sum += code * filter[(i / 4 * padded + channel) * 4 + i % 4];
      window += code * taps[i];
    }
    if (shape.has_filter) sum -= zero_point[channel] * window;
    return reference_wrap(sum);
  }

  std::size_t padded, pixel_step;
  std::vector<std::size_t> offsets;
  std::vector<std::uint8_t> activations;
  std::vector<std::int8_t> filter, taps;
  std::vector<std::int32_t> offset, zero_point;
  std::vector<float> multiplier;
  float output_zero_point;
  std::uint8_t flip;
};

void check_run(Check& check, const Shape& shape, Edge edge) {
  const Operands operands(check, shape);
  const std::size_t stride = shape.channels + shape.gap, results = (shape.pixels - 1) * stride + shape.channels;
  const GuardedBuffer<std::uint8_t> activations(operands.activations, edge),
      output(shape.ends_in_sums ? 0 : results, edge);
  const GuardedBuffer<std::int32_t> sums(shape.ends_in_sums ? results : 0, edge);
  const GuardedBuffer<std::int8_t> filter(operands.filter, edge), taps(operands.taps, edge);
  const GuardedBuffer<std::int32_t> offset(operands.offset, edge), zero_point(operands.zero_point, edge);
  const GuardedBuffer<float> multiplier(operands.multiplier, edge);
  check.table.depthwise->convolve({.activations = activations.data(),
                                   .pixel_step = operands.pixel_step,
                                   .offsets = operands.offsets.data(),
                                   .groups = shape.groups,
                                   .filter = filter.data(),
                                   .taps = taps.data(),
                                   .pixels = shape.pixels,
                                   .channels = shape.channels,
                                   .offset = offset.data(),
                                   .multiplier = shape.ends_in_sums ? nullptr : multiplier.data(),
                                   .filter_zero_point = shape.has_filter ? zero_point.data() : nullptr,
                                   .output_zero_point = operands.output_zero_point,
                                   .flip = operands.flip,
                                   .output = shape.ends_in_sums ? nullptr : output.data(),
                                   .output_pixel_stride = stride,
                                   .sums = shape.ends_in_sums ? sums.data() : nullptr});

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
  std::vector<std::int32_t> expected_sums = canaries<std::int32_t>(sums.size());
  for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
    for (std::size_t channel = 0; channel < shape.channels; ++channel) {
      const std::int32_t sum = operands.sum(shape, pixel, channel);
      if (shape.ends_in_sums) {
        expected_sums[pixel * stride + channel] = sum;
        continue;
      }
      const float scaled = static_cast<float>(sum) * operands.multiplier[channel];
      expected[pixel * stride + channel] = reference_code(scaled, operands.output_zero_point, operands.flip);
    }
  }
  check.equal(output, expected);
  check.equal(sums, expected_sums);
}

}  // namespace

void check_depthwise(Check& check) {
  for (const bool has_filter : {false, true}) {
    describe_case("depthwise of 515 groups, filter zero points %d", static_cast<int>(has_filter));
    check_run(check, {515, 5, 17, 0, has_filter, false}, kEdges[0]);
  }
  for (const std::size_t groups : Sizes{1, 2, 3, 4, 5, 6, 9, 10, 14}) {
    for (const std::size_t channels : Sizes{1, 7, 8, 9, 15, 16, 17, 32, 48, 63, 64, 65, 96, 97, 128, 129, 271}) {
      for (const std::size_t pixels : Sizes{1, 2, 3, 4, 5, 9}) {
        for (const Edge edge : kEdges) {
          const Shape shape = {groups, pixels, channels, check.below(2) * 3, check.one_in(2), check.one_in(3)};
          describe_case(
              "depthwise groups %zu, pixels %zu, channels %zu, gap %zu, filter zero points %d, sums %d, edge %d",
              groups, pixels, channels, shape.gap, shape.has_filter, shape.ends_in_sums, static_cast<int>(edge));
          check_run(check, shape, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
