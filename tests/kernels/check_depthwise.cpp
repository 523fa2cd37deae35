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

void check_run(Check& check, const Shape& shape, Edge edge) {
  const std::size_t padded = (shape.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  const std::size_t pixel_step = 4 * check.below(3 * padded), stride = shape.channels + shape.gap;
  std::vector<std::size_t> offsets(shape.groups);
  for (std::size_t& offset : offsets) offset = 4 * check.below(2 * padded);
  const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());

  const auto activations = draw<std::uint8_t>(check, furthest + (shape.pixels - 1) * pixel_step + padded * 4,
                                              [](Check& c) { return c.code(); });
  const auto filter =
      draw<std::int8_t>(check, shape.groups * padded * 4, [](Check& c) { return static_cast<std::int8_t>(c.code()); });
  const auto taps = draw<std::int8_t>(check, shape.groups * 4,
                                      [](Check& c) { return static_cast<std::int8_t>(c.one_in(4) ? 0 : 1); });
  const auto offset =
      draw<std::int32_t>(check, padded, [](Check& c) { return static_cast<std::int32_t>(c.word() >> c.below(24)); });
  const auto zero_point =
      draw<std::int32_t>(check, padded, [](Check& c) { return std::int32_t{static_cast<std::int8_t>(c.code())}; });
  const auto multiplier = draw<float>(
      check, padded, [](Check& c) { return c.one_in(4) ? c.scale() : 0.0001F * static_cast<float>(c.code()); });
  const float output_zero_point = check.zero_point();
  const std::uint8_t flip = check.flip();

  const GuardedBuffer<std::uint8_t> guarded_activations(activations, edge),
      output(shape.ends_in_sums ? 0 : (shape.pixels - 1) * stride + shape.channels, edge);
  const GuardedBuffer<std::int32_t> sums(shape.ends_in_sums ? (shape.pixels - 1) * stride + shape.channels : 0, edge);
  const GuardedBuffer<std::int8_t> guarded_filter(filter, edge), guarded_taps(taps, edge);
  const GuardedBuffer<std::int32_t> guarded_offset(offset, edge), guarded_zero_point(zero_point, edge);
  const GuardedBuffer<float> guarded_multiplier(multiplier, edge);
  check.table.depthwise->convolve({.activations = guarded_activations.data(),
                                   .pixel_step = pixel_step,
                                   .offsets = offsets.data(),
                                   .groups = shape.groups,
                                   .filter = guarded_filter.data(),
                                   .taps = guarded_taps.data(),
                                   .pixels = shape.pixels,
                                   .channels = shape.channels,
                                   .offset = guarded_offset.data(),
                                   .multiplier = shape.ends_in_sums ? nullptr : guarded_multiplier.data(),
                                   .filter_zero_point = shape.has_filter ? guarded_zero_point.data() : nullptr,
                                   .output_zero_point = output_zero_point,
                                   .flip = flip,
                                   .output = shape.ends_in_sums ? nullptr : output.data(),
                                   .output_pixel_stride = stride,
                                   .sums = shape.ends_in_sums ? sums.data() : nullptr});

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
  std::vector<std::int32_t> expected_sums = canaries<std::int32_t>(sums.size());
  for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
    for (std::size_t channel = 0; channel < shape.channels; ++channel) {
      std::int64_t sum = offset[channel], window = 0;
      for (std::size_t i = 0; i < shape.groups * 4; ++i) {
        const std::int64_t code = activations[pixel * pixel_step + offsets[i / 4] + channel * 4 + i % 4];
        sum += code * filter[(i / 4 * padded + channel) * 4 + i % 4];
        window += code * taps[i];
      }
      if (shape.has_filter) sum -= zero_point[channel] * window;
      if (shape.ends_in_sums) {
        expected_sums[pixel * stride + channel] = reference_wrap(sum);
        continue;
      }
      const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier[channel];
      expected[pixel * stride + channel] = reference_code(scaled, output_zero_point, flip);
    }
  }
  check.equal(output, expected);
  check.equal(sums, expected_sums);
}

}  // namespace

void check_depthwise(Check& check) {
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
