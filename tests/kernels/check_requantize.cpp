#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t rows, columns, accumulator_gap, output_gap;
};

std::vector<std::int32_t> draw_integers(Check& check, std::size_t count) {
  std::vector<std::int32_t> values(count);
  const bool small = check.one_in(2);
  for (std::int32_t& value : values) {
    value = small ? static_cast<std::int32_t>(check.below(4096)) - 2048 : static_cast<std::int32_t>(check.word());
  }
  return values;
}

// The elements of a block of rows that are gap elements apart, without a gap behind the last row.
std::size_t extent(const Shape& shape, std::size_t gap) {
  return shape.rows == 0 ? 0 : shape.rows * (shape.columns + gap) - gap;
}

void check_block(Check& check, const Shape& shape, bool has_filter, Edge edge) {
  const std::size_t accumulator_stride = shape.columns + shape.accumulator_gap;
  const std::size_t output_stride = shape.columns + shape.output_gap;
  const std::vector<std::int32_t> accumulators = draw_integers(check, extent(shape, shape.accumulator_gap));
  const std::vector<std::int32_t> offset = draw_integers(check, shape.columns),
                                  filter = draw_integers(check, shape.columns);
  const std::vector<std::int32_t> activation = draw_integers(check, shape.rows);
  std::vector<float> multiplier(shape.columns);
  for (float& value : multiplier) value = check.scale();
  const float zero_point = check.zero_point();
  const std::uint8_t flip = check.flip();

  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(extent(shape, shape.output_gap));
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t column = 0; column < shape.columns; ++column) {
      std::int64_t sum = std::int64_t{accumulators[row * accumulator_stride + column]} + offset[column];
      if (has_filter) sum -= reference_wrap(std::int64_t{filter[column]} * activation[row]);
      const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier[column];
      expected[row * output_stride + column] = reference_code(scaled, zero_point, flip);
    }
  }

  const GuardedBuffer<std::int32_t> guarded_accumulators(accumulators, edge), guarded_offset(offset, edge),
      guarded_filter(filter, edge), guarded_activation(activation, edge);
  const GuardedBuffer<float> guarded_multiplier(multiplier, edge);
  const GuardedBuffer<std::uint8_t> output(expected.size(), edge);
  check.table.requantize->run({.accumulators = guarded_accumulators.data(),
                               .accumulator_row_stride = accumulator_stride,
                               .output = output.data(),
                               .output_row_stride = output_stride,
                               .rows = shape.rows,
                               .columns = shape.columns,
                               .offset = guarded_offset.data(),
                               .multiplier = guarded_multiplier.data(),
                               .filter_zero_point = has_filter ? guarded_filter.data() : nullptr,
                               .activation_sum = has_filter ? guarded_activation.data() : nullptr,
                               .output_zero_point = zero_point,
                               .flip = flip});
  check.equal(output, expected);
}

}  // namespace

void check_requantize(Check& check) {
  for (const std::size_t columns : run_lengths()) {
    for (const std::size_t rows : {0, 1, 2, 5}) {
      for (const bool has_filter : {false, true}) {
        for (const Edge edge : kEdges) {
          const Shape shape = {rows, columns, check.below(3), check.below(3)};
          describe_case("requantize %zu x %zu, gaps %zu and %zu, filter zero points %d, edge %d", rows, columns,
                        shape.accumulator_gap, shape.output_gap, has_filter, static_cast<int>(edge));
          check_block(check, shape, has_filter, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
