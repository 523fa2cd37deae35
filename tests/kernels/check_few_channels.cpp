#include <algorithm>
#include <cstring>
#include <memory>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t channels, rows, segments, pixels, gap;
  bool has_zero_points;
};

// Codes {rows, segments, channels + 1, 4} in the kernel's layout.
std::vector<std::uint8_t> packed_filter(const FewChannelsKernels& kernels, const std::vector<std::int8_t>& filter) {
  if (!kernels.widened) return {filter.begin(), filter.end()};
  std::vector<std::int16_t> wide;
  for (std::size_t first = 0; first < filter.size(); first += 4) {
    for (const std::size_t i : Sizes{0, 2, 1, 3}) wide.push_back(filter[first + i]);
  }
  std::vector<std::uint8_t> bytes(wide.size() * sizeof(std::int16_t));
  std::memcpy(bytes.data(), wide.data(), bytes.size());
  return bytes;
}

struct Operands {
  Operands(Check& check, const Shape& shape) : offsets(shape.segments), filter(filter_size(shape)) {
    for (std::size_t& of_segment : offsets) of_segment = check.below(100);
    const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());
    for (std::size_t row = 0; row < shape.rows; ++row) {
      std::vector<std::uint8_t> codes(furthest + (shape.pixels + kFewChannelsPixels) * 4);
      for (std::uint8_t& code : codes) code = check.code();
      rows.push_back(codes);
    }
    const std::size_t channels = shape.channels;
    for (std::size_t i = 0; i < filter.size(); ++i) {
      const bool is_of_ones = i / 4 % (channels + 1) == channels;
      filter[i] = is_of_ones ? std::int8_t{1} : static_cast<std::int8_t>(check.code());
    }
    for (std::size_t channel = 0; channel < channels; ++channel) {
      offset.push_back(static_cast<std::int32_t>(check.word() >> check.below(24)));
      multiplier.push_back(check.one_in(4) ? check.scale() : 0.0001F * static_cast<float>(check.code()));
      zero_point.push_back(static_cast<std::int8_t>(check.code()));
    }
    output_zero_point = check.zero_point();
    flip = check.flip();
  }

  static std::size_t filter_size(const Shape& shape) { return shape.rows * shape.segments * (shape.channels + 1) * 4; }

  std::uint8_t code(const Shape& shape, std::size_t pixel, std::size_t channel) const {
    std::int64_t sum = offset[channel], window = 0;
    for (std::size_t row = 0; row < shape.rows; ++row) {
      for (std::size_t segment = 0; segment < shape.segments; ++segment) {
        const std::size_t of_segment = (row * shape.segments + segment) * (shape.channels + 1);
        for (std::size_t i = 0; i < 4; ++i) {
          const std::int64_t activation = rows[row][offsets[segment] + pixel * 4 + i];
          sum += activation * filter[(of_segment + channel) * 4 + i];
          window += activation * filter[(of_segment + shape.channels) * 4 + i];
        }
      }
    }
    if (shape.has_zero_points) sum -= zero_point[channel] * window;
    const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier[channel];
    return reference_code(scaled, output_zero_point, flip);
  }

  std::vector<std::size_t> offsets;
  std::vector<std::vector<std::uint8_t>> rows;
  std::vector<std::int8_t> filter;
  std::vector<std::int32_t> offset, zero_point;
  std::vector<float> multiplier;
  float output_zero_point;
  std::uint8_t flip;
};

void check_run(Check& check, const Shape& shape, Edge edge) {
  const FewChannelsKernels& kernels = *check.table.few_channels;
  const Operands operands(check, shape);
  const std::size_t stride = shape.pixels + shape.gap;

  const GuardedBuffer<std::uint8_t> filter(packed_filter(kernels, operands.filter), edge),
      output((shape.channels - 1) * stride + shape.pixels, edge);
  std::vector<std::unique_ptr<GuardedBuffer<std::uint8_t>>> rows;
  std::vector<const std::uint8_t*> row_pointers;
  for (const std::vector<std::uint8_t>& row : operands.rows) {
    rows.push_back(std::make_unique<GuardedBuffer<std::uint8_t>>(row, edge));
    row_pointers.push_back(rows.back()->data());
  }
  const GuardedBuffer<std::int32_t> offset(operands.offset, edge), zero_point(operands.zero_point, edge);
  const GuardedBuffer<float> multiplier(operands.multiplier, edge);
  kernels.convolve({.rows = row_pointers.data(),
                    .row_count = shape.rows,
                    .offsets = operands.offsets.data(),
                    .segments = shape.segments,
                    .filter = filter.data(),
                    .pixels = shape.pixels,
                    .channels = shape.channels,
                    .offset = offset.data(),
                    .multiplier = multiplier.data(),
                    .filter_zero_point = shape.has_zero_points ? zero_point.data() : nullptr,
                    .output_zero_point = operands.output_zero_point,
                    .flip = operands.flip,
                    .output = output.data(),
                    .output_channel_stride = stride});

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
  for (std::size_t channel = 0; channel < shape.channels; ++channel) {
    for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
      expected[channel * stride + pixel] = operands.code(shape, pixel, channel);
    }
  }
  check.equal(output, expected);
}

}  // namespace

void check_few_channels(Check& check) {
  if (check.table.few_channels == nullptr) return;
  for (const std::size_t channels : Sizes{1, 2, 3, 4, 5, 8, 11}) {
    for (const std::size_t pixels : Sizes{1, 7, 8, 16, 17, 31, 64, 100, 129, 143}) {
      for (const std::size_t segments : Sizes{1, 5}) {
        for (const Edge edge : kEdges) {
          const Shape shape = {channels, 1 + check.below(3), segments, pixels, check.below(2) * 3, check.one_in(2)};
          describe_case("few channels %zu, rows %zu, segments %zu, pixels %zu, gap %zu, zero points %d, edge %d",
                        channels, shape.rows, segments, pixels, shape.gap, shape.has_zero_points,
                        static_cast<int>(edge));
          check_run(check, shape, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
