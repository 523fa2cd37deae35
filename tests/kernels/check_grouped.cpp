#include <algorithm>
#include <cmath>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t group_lanes, groups, taps, pixels, gap;
  bool has_filter, below_1;  // the latter of multipliers
  bool pairs_fit;            // of the filter
  bool ends_in_sums;
  std::size_t group() const { return group_lanes * kGroupedLaneChannels; }
  std::size_t channels() const { return groups * group(); }
};

template <class T>
std::vector<T> draw(Check& check, std::size_t count, T (*value)(Check&)) {
  std::vector<T> values(count);
  for (T& element : values) element = value(check);
  return values;
}

// The filter {channels, taps, channels of a group} in the kernel's layout, by what grouped.h says of each vector.
std::vector<std::uint8_t> packed_filter(const GroupedKernels& kernels, const Shape& shape,
                                        const std::vector<std::int8_t>& filter, std::size_t blocks) {
  const std::size_t lanes = kernels.lanes;
  std::vector<std::int16_t> codes;  // vectors of four codes a lane
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t tap = 0; tap < shape.taps; ++tap) {
      for (std::size_t exchange = 0; exchange < shape.group_lanes; ++exchange) {
        for (std::size_t t = 0; t < 4; ++t) {
          for (std::size_t lane = block * lanes; lane < (block + 1) * lanes; ++lane) {
            const std::size_t channel = lane * 4 + t, input = (lane ^ exchange) * 4 % shape.group();
            for (std::size_t i = 0; i < 4; ++i) {
              codes.push_back(channel < shape.channels()
                                  ? filter[(channel * shape.taps + tap) * shape.group() + input + i]
                                  : std::int16_t{0});
            }
          }
        }
      }
    }
  }
  if (!kernels.widened || shape.pairs_fit) return {codes.begin(), codes.end()};
  std::vector<std::int16_t> wide;
  for (std::size_t vector = 0; vector < codes.size(); vector += lanes * 4) {
    for (const std::size_t odd : Sizes{0, 1}) {
      for (std::size_t i = odd; i < lanes * 4; i += 2) wide.push_back(codes[vector + i]);
    }
  }
  std::vector<std::uint8_t> bytes(wide.size() * sizeof(std::int16_t));
  std::memcpy(bytes.data(), wide.data(), bytes.size());
  return bytes;
}

// Pairs of codes whose positive and whose negative ones add up to 128 at most, some of them to no less.
std::vector<std::int8_t> fitting_pairs(Check& check, std::size_t count) {
  std::vector<std::int8_t> codes;
  while (codes.size() < count) {
    const int first = static_cast<std::int8_t>(check.code());
    const int most = first > 0 ? std::min(127, 128 - first) : 127, least = first < 0 ? -128 - first : -128;
    const int any = least + static_cast<int>(check.below(static_cast<std::size_t>(most - least + 1)));
    const int second = check.one_in(2) ? any : check.one_in(2) ? most : least;
    codes.push_back(static_cast<std::int8_t>(first));
    codes.push_back(static_cast<std::int8_t>(second));
  }
  return codes;
}

std::size_t parameter_index(std::size_t channel, std::size_t lanes) {
  const std::size_t lane = channel / 4;
  return (lane / lanes * 4 + channel % 4) * lanes + lane % lanes;
}

template <class T>
std::vector<T> ordered(const std::vector<T>& of_channels, std::size_t lanes, std::size_t padded) {
  std::vector<T> result(padded);
  for (std::size_t c = 0; c < of_channels.size(); ++c) result[parameter_index(c, lanes)] = of_channels[c];
  return result;
}

struct Operands {
  Operands(Check& check, const Shape& shape, std::size_t block)
      : channels(shape.channels()),
        padded((channels + block - 1) / block * block),
        pixel_step(check.below(3 * padded)),
        offsets(shape.taps) {
    for (std::size_t& of_tap : offsets) of_tap = check.below(2 * padded);
    const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());
    activations = draw<std::uint8_t>(check, furthest + (shape.pixels - 1) * pixel_step + padded,
                                     [](Check& c) { return c.code(); });
    const std::size_t codes = channels * shape.taps * shape.group();
    filter = shape.pairs_fit
                 ? fitting_pairs(check, codes)
                 : draw<std::int8_t>(check, codes, [](Check& c) { return static_cast<std::int8_t>(c.code()); });
    offset = draw<std::int32_t>(check, channels,
                                [](Check& c) { return static_cast<std::int32_t>(c.word() >> c.below(24)); });
    zero_point =
        draw<std::int32_t>(check, channels, [](Check& c) { return std::int32_t{static_cast<std::int8_t>(c.code())}; });
    multiplier = draw<float>(check, channels,
                             [](Check& c) { return c.one_in(4) ? c.scale() : 0.0001F * static_cast<float>(c.code()); });
    for (float& value : multiplier) {
      if (shape.below_1 && !(std::fabs(value) < 1.0F)) value = std::copysign(0x1.fffffep-1F, value);
    }
    output_zero_point = check.zero_point();
    flip = check.flip();
  }

  std::int32_t sum(const Shape& shape, std::size_t pixel, std::size_t channel) const {
    const std::size_t first = channel / shape.group() * shape.group();
    std::int64_t result = offset[channel], window = 0;
    for (std::size_t tap = 0; tap < shape.taps; ++tap) {
      for (std::size_t i = 0; i < shape.group(); ++i) {
        const std::int64_t activation = activations[pixel * pixel_step + offsets[tap] + first + i];
        result += activation * filter[(channel * shape.taps + tap) * shape.group() + i];
        window += activation;
      }
    }
    if (shape.has_filter) result -= zero_point[channel] * window;
    return reference_wrap(result);
  }

  std::size_t channels, padded, pixel_step;
  std::vector<std::size_t> offsets;
  std::vector<std::uint8_t> activations;
  std::vector<std::int8_t> filter;
  std::vector<std::int32_t> offset, zero_point;
  std::vector<float> multiplier;
  float output_zero_point;
  std::uint8_t flip;
};

void check_run(Check& check, const Shape& shape, Edge edge) {
  const GroupedKernels& kernels = *check.table.grouped;
  const std::size_t block = kernels.lanes * kGroupedLaneChannels;
  const Operands operands(check, shape, block);
  const std::size_t channels = operands.channels, padded = operands.padded, stride = channels + shape.gap;

  // A multiple of 64 bytes ends at a page's end, aligned.
  const GuardedBuffer<std::uint8_t> filter(packed_filter(kernels, shape, operands.filter, padded / block), edge),
      activations(operands.activations, edge);
  const std::size_t outputs = (shape.pixels - 1) * stride + channels;
  const GuardedBuffer<std::uint8_t> output(shape.ends_in_sums ? 0 : outputs, edge);
  const GuardedBuffer<std::int32_t> sums(shape.ends_in_sums ? outputs : 0, edge);
  const GuardedBuffer<std::int32_t> offset(ordered(operands.offset, kernels.lanes, padded), edge),
      zero_point(ordered(operands.zero_point, kernels.lanes, padded), edge);
  const GuardedBuffer<float> multiplier(ordered(operands.multiplier, kernels.lanes, padded), edge);
  kernels.convolve({.activations = activations.data(),
                    .pixel_step = operands.pixel_step,
                    .offsets = operands.offsets.data(),
                    .taps = shape.taps,
                    .group_lanes = shape.group_lanes,
                    .filter = filter.data(),
                    .pairs_fit = shape.pairs_fit,
                    .pixels = shape.pixels,
                    .channels = channels,
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
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::int32_t sum = operands.sum(shape, pixel, channel);
      if (shape.ends_in_sums) {
        expected_sums[pixel * stride + channel] = sum;
      } else {
        const float scaled = static_cast<float>(sum) * operands.multiplier[channel];
        expected[pixel * stride + channel] = reference_code(scaled, operands.output_zero_point, operands.flip);
      }
    }
  }
  check.equal(output, expected);
  check.equal(sums, expected_sums);
}

}  // namespace

void check_grouped(Check& check) {
  for (const std::size_t group_lanes : Sizes{1, 2, 4}) {
    if (group_lanes > check.table.grouped->most_group_lanes) continue;
    for (const std::size_t lanes : Sizes{4, 8, 12, 16, 20, 32, 36, 52}) {
      for (const std::size_t taps : Sizes{1, 2, 9}) {
        for (const std::size_t pixels : Sizes{1, 2, 3, 4, 5, 7, 14}) {
          for (const Edge edge : kEdges) {
            // Groups of 1 and 2 lanes also end within a vector's 128 bits.
            const std::size_t groups = lanes / group_lanes - (lanes > 4 ? check.below(4 / group_lanes) : 0);
            const Shape shape = {
                group_lanes,     groups,          taps,           pixels, check.below(2) * 3, check.one_in(2),
                check.one_in(2), check.one_in(2), check.one_in(3)};
            describe_case(
                "grouped lanes %zu, groups %zu, taps %zu, pixels %zu, gap %zu, filter zero points %d, below 1 %d, "
                "pairs fit %d, sums %d, edge %d",
                group_lanes, groups, taps, pixels, shape.gap, shape.has_filter, shape.below_1, shape.pairs_fit,
                shape.ends_in_sums, static_cast<int>(edge));
            check_run(check, shape, edge);
          }
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
