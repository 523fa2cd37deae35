#include <algorithm>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Sums {
  std::size_t groups, pixels, lanes, gap;
};

void check_sums(Check& check, const Sums& shape, Edge edge) {
  const std::size_t padded = (shape.lanes + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  const std::size_t pixel_step = 4 * check.below(3 * padded), row_stride = padded + shape.gap;
  std::vector<std::size_t> offsets(shape.groups);
  for (std::size_t& offset : offsets) offset = 4 * check.below(2 * padded);
  const std::size_t furthest = *std::max_element(offsets.begin(), offsets.end());
  std::vector<std::uint8_t> activations(furthest + (shape.pixels - 1) * pixel_step + padded * 4);
  std::vector<std::int8_t> filter(shape.groups * padded * 4);
  for (std::uint8_t& code : activations) code = check.code();
  for (std::int8_t& code : filter) code = static_cast<std::int8_t>(check.code());

  const GuardedBuffer<std::uint8_t> guarded_activations(activations, edge);
  const GuardedBuffer<std::int8_t> guarded_filter(filter, edge);
  const GuardedBuffer<std::int32_t> sums(shape.pixels * row_stride - shape.gap, edge);
  check.table.depthwise->accumulate({.activations = guarded_activations.data(),
                                     .pixel_step = pixel_step,
                                     .offsets = offsets.data(),
                                     .groups = shape.groups,
                                     .filter = guarded_filter.data(),
                                     .sums = sums.data(),
                                     .sums_row_stride = row_stride,
                                     .pixels = shape.pixels,
                                     .lanes = shape.lanes});

  std::vector<std::int32_t> expected = canaries<std::int32_t>(sums.size());
  for (std::size_t pixel = 0; pixel < shape.pixels; ++pixel) {
    for (std::size_t lane = 0; lane < padded; ++lane) {
      std::int64_t sum = 0;
      for (std::size_t group = 0; group < shape.groups; ++group) {
        for (std::size_t tap = 0; tap < 4; ++tap) {
          sum += activations[pixel * pixel_step + offsets[group] + lane * 4 + tap] *
                 filter[(group * padded + lane) * 4 + tap];
        }
      }
      expected[pixel * row_stride + lane] = reference_wrap(sum);
    }
  }
  check.equal(sums, expected);
}

}  // namespace

void check_depthwise(Check& check) {
  for (const std::size_t groups : {1, 2, 3, 4, 5, 6, 10, 14}) {
    for (const std::size_t lanes : {1, 15, 16, 17, 32, 48, 63, 64, 65, 128, 129, 144, 271}) {
      for (const std::size_t pixels : {1, 2, 3, 4, 5, 9}) {
        for (const Edge edge : kEdges) {
          const Sums shape = {groups, pixels, lanes, check.below(2) * 3};
          describe_case("depthwise groups %zu, pixels %zu, lanes %zu, gap %zu, edge %d", groups, pixels, lanes,
                        shape.gap, static_cast<int>(edge));
          check_sums(check, shape, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
