#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::vector<float> draw_steps(Check& check, std::size_t count) {
  std::vector<float> steps(count);
  for (float& step : steps) step = static_cast<float>(check.code()) - check.zero_point();
  return steps;
}

float draw_weight(Check& check) {
  return check.one_in(4) ? check.one_of<float>({0.0f, 0.5f, 1.0f})
                         : static_cast<float>(check.below(1 << 24)) * 0x1p-24f;
}

void check_columns(Check& check, std::size_t columns, std::size_t channels, Edge edge) {
  const std::size_t pixels = 1 + check.below(columns + 3);
  const std::vector<float> input = draw_steps(check, pixels * channels);
  std::vector<std::int32_t> lower(columns), upper(columns);
  std::vector<float> weight(columns), expected(columns * channels);
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t first = check.below(pixels) * channels, second = check.below(pixels) * channels;
    lower[column] = static_cast<std::int32_t>(first);
    upper[column] = static_cast<std::int32_t>(second);
    weight[column] = draw_weight(check);
    for (std::size_t c = 0; c < channels; ++c) {
      const float rise = (input[second + c] - input[first + c]) * weight[column];
      expected[column * channels + c] = input[first + c] + rise;
    }
  }
  const GuardedBuffer<float> guarded_input(input, edge), guarded_weight(weight, edge), output(expected.size(), edge);
  const GuardedBuffer<std::int32_t> guarded_lower(lower, edge), guarded_upper(upper, edge);
  describe_case("resample columns %zu, channels %zu, edge %d", columns, channels, static_cast<int>(edge));
  check.table.resample->columns({.input = guarded_input.data(),
                                 .lower = guarded_lower.data(),
                                 .upper = guarded_upper.data(),
                                 .weight = guarded_weight.data(),
                                 .columns = columns,
                                 .channels = channels,
                                 .output = output.data()});
  check.equal(output, expected);
}

void check_rows(Check& check, std::size_t count, Edge edge) {
  const std::vector<float> top = draw_steps(check, count), bottom = draw_steps(check, count);
  const float weight = draw_weight(check), input_scale = check.scale(), zero_point = check.zero_point();
  const float output_scale = check.one_in(2) ? 2.0f * input_scale : check.scale();
  const std::uint8_t flip = check.flip();
  std::vector<std::uint8_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float rise = (bottom[i] - top[i]) * weight, value = (top[i] + rise) * input_scale;
    expected[i] = reference_code(value / output_scale, zero_point, flip);
  }
  const GuardedBuffer<float> guarded_top(top, edge), guarded_bottom(bottom, edge);
  const GuardedBuffer<std::uint8_t> output(count, edge);
  describe_case("resample rows, count %zu, edge %d, scales %a to %a", count, static_cast<int>(edge),
                static_cast<double>(input_scale), static_cast<double>(output_scale));
  check.table.resample->rows({.top = guarded_top.data(),
                              .bottom = guarded_bottom.data(),
                              .weight = weight,
                              .count = count,
                              .input_scale = input_scale,
                              .output_scale = output_scale,
                              .output_zero_point = zero_point,
                              .output_flip = flip,
                              .output = output.data()});
  check.equal(output, expected);
}

}  // namespace

void check_resample(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t count : run_lengths()) {
      check_columns(check, count, 1, edge);
      for (int repeat = 0; repeat < 8; ++repeat) check_rows(check, count, edge);
    }
    for (const std::size_t channels : Sizes{2, 7, 8, 9, 15, 16, 17, 33, 64, 100}) {
      for (const std::size_t columns : Sizes{0, 1, 2, 7}) check_columns(check, columns, channels, edge);
    }
  }
}

}  // namespace dmlcpu::test
