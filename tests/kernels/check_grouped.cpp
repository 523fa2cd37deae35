#include <algorithm>
#include <cmath>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t group_lanes, groups, taps, pixels, gap;
  bool has_filter, below_1;  // the latter of multipliers
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
  if (!kernels.widened) return {codes.begin(), codes.end()};
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

void check_run(Check& check, const Shape& shape, Edge edge) {
  const GroupedKernels& kernels = *check.table.grouped;
  const std::size_t channels = shape.channels(), block = kernels.lanes * kGroupedLaneChannels;
  const std::size_t padded = (channels + block - 1) / block * block, stride = channels + shape.gap;
  const std::size_t pixel_step = check.below(3 * padded);
  std::vector<std::size_t> offsets(shape.taps);
  for (std::size_t& offset : offsets) offset = check.below(2 * padded);
  const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());

  const auto activations =
      draw<std::uint8_t>(check, furthest + (shape.pixels - 1) * pixel_step + padded, [](Check& c) { return c.code(); });
  const auto filter = draw<std::int8_t>(check, channels * shape.taps * shape.group(),
                                        [](Check& c) { return static_cast<std::int8_t>(c.code()); });
  const auto offset =
      draw<std::int32_t>(check, channels, [](Check& c) { return static_cast<std::int32_t>(c.word() >> c.below(24)); });
  const auto zero_point =
      draw<std::int32_t>(check, channels, [](Check& c) { return std::int32_t{static_cast<std::int8_t>(c.code())}; });
  auto multiplier = draw<float>(
      check, channels, [](Check& c) { return c.one_in(4) ? c.scale() : 0.0001F * static_cast<float>(c.code()); });
  for (float& value : multiplier) {
    if (shape.below_1 && !(std::fabs(value) < 1.0F)) value = std::copysign(0x1.fffffep-1F, value);
  }
  const float output_zero_point = check.zero_point();
  const std::uint8_t flip = check.flip();

  // A multiple of 64 bytes ends at a page's end, aligned.
  const GuardedBuffer<std::uint8_t> guarded_filter(packed_filter(kernels, shape, filter, padded / block), edge),
      guarded_activations(activations, edge), output((shape.pixels - 1) * stride + channels, edge);
  const GuardedBuffer<std::int32_t> guarded_offset(ordered(offset, kernels.lanes, padded), edge),
      guarded_zero_point(ordered(zero_point, kernels.lanes, padded), edge);
  const GuardedBuffer<float> guarded_multiplier(ordered(multiplier, kernels.lanes, padded), edge);
  kernels.convolve({.activations = guarded_activations.data(),
                    .pixel_step = pixel_step,
                    .offsets = offsets.data(),
                    .taps = shape.taps,
                    .group_lanes = shape.group_lanes,
                    .filter = guarded_filter.data(),
                    .pixels = shape.pixels,
                    .channels = channels,
                    .offset = guarded_offset.data(),
                    .multiplier = guarded_multiplier.data(),
                    .filter_zero_point = shape.has_filter ? guarded_zero_point.data() : nullptr,
                    .output_zero_point = output_zero_point,
                    .flip = flip,
                    .output = output.data(),
                    .output_pixel_stride = stride});

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
  for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::size_t first = channel / shape.group() * shape.group();
      std::int64_t sum = offset[channel], window = 0;
      for (std::size_t tap = 0; tap < shape.taps; ++tap) {
        for (std::size_t i = 0; i < shape.group(); ++i) {
          const std::int64_t code = activations[pixel * pixel_step + offsets[tap] + first + i];
          sum += code * filter[(channel * shape.taps + tap) * shape.group() + i];
          window += code;
        }
      }
      if (shape.has_filter) sum -= zero_point[channel] * window;
      const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier[channel];
      expected[pixel * stride + channel] = reference_code(scaled, output_zero_point, flip);
    }
  }
  check.equal(output, expected);
}

}  // namespace

void check_grouped(Check& check) {
  for (const std::size_t group_lanes : Sizes{1, 2, 4}) {
    for (const std::size_t lanes : Sizes{4, 8, 12, 16, 20, 32, 36, 52}) {
      for (const std::size_t taps : Sizes{1, 2, 9}) {
        for (const std::size_t pixels : Sizes{1, 2, 3, 4, 5, 7, 14}) {
          for (const Edge edge : kEdges) {
            // Groups of 1 and 2 lanes also end within a vector's 128 bits.
            const std::size_t groups = lanes / group_lanes - (lanes > 4 ? check.below(4 / group_lanes) : 0);
            const Shape shape = {group_lanes,        groups,          taps,           pixels,
                                 check.below(2) * 3, check.one_in(2), check.one_in(2)};
            describe_case(
                "grouped lanes %zu, groups %zu, taps %zu, pixels %zu, gap %zu, filter zero points %d, below 1 %d, edge "
                "%d",
                group_lanes, groups, taps, pixels, shape.gap, shape.has_filter, shape.below_1, static_cast<int>(edge));
            check_run(check, shape, edge);
          }
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
