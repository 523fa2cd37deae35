#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t m, n;
  bool has_zero_points, has_bias;
};

template <class T>
std::vector<T> draw(Check& check, std::size_t count, T (*value)(Check&)) {
  std::vector<T> values(count);
  for (T& element : values) element = value(check);
  return values;
}

// NaN and infinity among them.
float multiplier(Check& check) { return check.one_in(4) ? check.scale() : 0.001F * static_cast<float>(check.code()); }
std::int32_t sum(Check& check) { return static_cast<std::int32_t>(check.word() >> check.below(20)); }

void draw_bias(Check& check, float& value) { value = check.number(); }
void draw_bias(Check& check, std::uint16_t& value) { value = reference_narrow(check.number()); }
float with_one_nan(float value) { return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value; }
float widened(float value) { return value; }
float widened(std::uint16_t half) { return reference_widen(half); }
void narrowed(float value, float& result) { result = value; }
void narrowed(float value, std::uint16_t& result) { result = reference_narrow(value); }

// The operands of one block; results of each kind are made of them in turn.
struct Operands {
  std::size_t m, n, sums_stride, output_stride, bias_stride;
  std::vector<std::int32_t> sums, row_zero_points, column_sums;
  std::vector<float> row_multipliers, column_multipliers, row_output_zero_points;
  std::uint8_t flip;
  bool has_zero_points;

  Operands(Check& check, const Shape& shape)
      : m(shape.m),
        n(shape.n),
        sums_stride(shape.n + check.below(3)),
        output_stride(shape.n + check.below(3)),
        bias_stride(check.one_in(3) ? 0 : shape.n + check.below(3)),
        sums(draw<std::int32_t>(check, (m - 1) * sums_stride + n, sum)),
        row_zero_points(draw<std::int32_t>(check, m, [](Check& c) { return std::int32_t{c.code()}; })),
        column_sums(draw<std::int32_t>(check, n, sum)),
        row_multipliers(draw<float>(check, m, multiplier)),
        column_multipliers(draw<float>(check, n, multiplier)),
        row_output_zero_points(draw<float>(check, m, [](Check& c) { return c.zero_point(); })),
        flip(check.flip()),
        has_zero_points(shape.has_zero_points) {}

  void close_gaps(Check& check) {
    sums_stride = output_stride = n;
    sums = draw<std::int32_t>(check, m * n, sum);
  }
  std::size_t results() const { return (m - 1) * output_stride + n; }
  std::int32_t total(std::size_t row, std::size_t column) const {
    std::int64_t value = sums[row * sums_stride + column];
    if (has_zero_points) value -= std::int64_t{row_zero_points[row]} * column_sums[column];
    return reference_wrap(value);
  }
  float multiplier_of(std::size_t row, std::size_t column) const {
    return row_multipliers[row] * column_multipliers[column];
  }
};

// Runs a kernel between guard pages; expected has gaps as they have to stay.
template <class Output>
void check_kernel(Check& check, RescaleFunction kernel, const Operands& operands, const std::vector<Output>& bias,
                  const std::vector<Output>& expected, Edge edge) {
  const GuardedBuffer<std::int32_t> sums(operands.sums, edge), rows(operands.row_zero_points, edge),
      columns(operands.column_sums, edge);
  const GuardedBuffer<float> row_multipliers(operands.row_multipliers, edge),
      column_multipliers(operands.column_multipliers, edge), zero_points(operands.row_output_zero_points, edge);
  const GuardedBuffer<Output> guarded_bias(bias, edge), output(operands.results(), edge);
  kernel({.sums = sums.data(),
          .sums_row_stride = operands.sums_stride,
          .m = operands.m,
          .n = operands.n,
          .row_zero_point = operands.has_zero_points ? rows.data() : nullptr,
          .column_sum = operands.has_zero_points ? columns.data() : nullptr,
          .row_multiplier = row_multipliers.data(),
          .column_multiplier = column_multipliers.data(),
          .row_output_zero_point = zero_points.data(),
          .flip = operands.flip,
          .bias = bias.empty() ? nullptr : guarded_bias.data(),
          .bias_row_stride = operands.bias_stride,
          .output = output.data(),
          .output_row_stride = operands.output_stride});
  check.equal(output, expected);
}

template <class Output, class Result>
std::vector<Output> results_of(const Operands& operands, Result result) {
  std::vector<Output> expected = canaries<Output>(operands.results());
  for (std::size_t row = 0; row < operands.m; ++row) {
    for (std::size_t column = 0; column < operands.n; ++column) {
      expected[row * operands.output_stride + column] = result(row, column);
    }
  }
  return expected;
}

template <class Output>
void check_floats(Check& check, RescaleFunction kernel, const Operands& operands, bool has_bias, Edge edge) {
  std::vector<Output> bias(has_bias ? (operands.m - 1) * operands.bias_stride + operands.n : 0);
  for (Output& value : bias) draw_bias(check, value);
  const auto expected = results_of<Output>(operands, [&](std::size_t row, std::size_t column) {
    const float value = static_cast<float>(operands.total(row, column));
    const float by = operands.multiplier_of(row, column);
    Output result;
    const float scaled =
        has_bias ? std::fma(value, by, widened(bias[row * operands.bias_stride + column])) : value * by;
    narrowed(with_one_nan(scaled), result);
    return result;
  });
  check_kernel(check, kernel, operands, bias, expected, edge);
}

void check_block(Check& check, const Shape& shape, Edge edge) {
  const RescaleKernels& kernels = *check.table.rescale;
  const Operands operands(check, shape);
  check_kernel<std::int32_t>(
      check, kernels.to_sums, operands, {},
      results_of<std::int32_t>(operands,
                               [&](std::size_t row, std::size_t column) { return operands.total(row, column); }),
      edge);
  check_floats<float>(check, kernels.to_float32, operands, shape.has_bias, edge);
  check_floats<std::uint16_t>(check, kernels.to_float16, operands, shape.has_bias, edge);
  check_kernel<std::uint8_t>(
      check, kernels.to_codes, operands, {},
      results_of<std::uint8_t>(operands,
                               [&](std::size_t row, std::size_t column) {
                                 const float scaled = static_cast<float>(operands.total(row, column)) *
                                                      operands.multiplier_of(row, column);
                                 return reference_code(scaled, operands.row_output_zero_points[row], operands.flip);
                               }),
      edge);
}

// With the sums, their gaps included, where the output is, or elsewhere.
void check_scaled_columns(Check& check, const Operands& operands, bool has_bias, bool in_place, Edge edge) {
  const std::size_t stride = in_place ? operands.sums_stride : operands.output_stride;
  std::vector<float> bias(has_bias ? operands.n : 0), expected((operands.m - 1) * stride + operands.n);
  for (float& value : bias) value = check.number();
  const GuardedBuffer<float> output(expected.size(), edge), multiplier(operands.column_multipliers, edge),
      guarded_bias(bias, edge);
  const GuardedBuffer<std::int32_t> sums(operands.sums, edge);
  if (in_place) std::memcpy(output.data(), operands.sums.data(), operands.sums.size() * sizeof(float));
  std::memcpy(expected.data(), output.data(), expected.size() * sizeof(float));
  for (std::size_t row = 0; row < operands.m; ++row) {
    for (std::size_t column = 0; column < operands.n; ++column) {
      const auto sum = static_cast<float>(operands.sums[row * operands.sums_stride + column]);
      const float scaled = sum * operands.column_multipliers[column];
      expected[row * stride + column] = has_bias ? scaled + bias[column] : scaled;
    }
  }
  const std::size_t runs = operands.m % 3 == 0 ? 3 : 1;
  check.table.rescale->scale_columns(
      {.sums = in_place ? reinterpret_cast<const std::int32_t*>(output.data()) : sums.data(),
       .sums_run_stride = operands.sums_stride * (operands.m / runs),
       .sums_row_stride = operands.sums_stride,
       .runs = runs,
       .m = operands.m / runs,
       .n = operands.n,
       .multiplier = multiplier.data(),
       .bias = has_bias ? guarded_bias.data() : nullptr,
       .output = output.data(),
       .output_run_stride = stride * (operands.m / runs),
       .output_row_stride = stride});
  check.equal_but_for_nans(output, expected);
}

}  // namespace

void check_rescale(Check& check) {
  for (const std::size_t n : run_lengths()) {
    if (n == 0) continue;
    for (const std::size_t m : Sizes{1, 3}) {
      for (const Edge edge : kEdges) {
        const Shape shape = {m, n, check.one_in(2), check.one_in(2)};
        describe_case("rescale m %zu, n %zu, zero points %d, bias %d, edge %d", m, n, shape.has_zero_points,
                      shape.has_bias, static_cast<int>(edge));
        check_block(check, shape, edge);
      }
    }
  }
  for (const std::size_t n : Sizes{1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40}) {
    for (const std::size_t m : Sizes{1, 3, 4, 5, 8, 9, 12, 15, 16, 17, 33, 49, 51}) {
      for (const Edge edge : kEdges) {
        const bool has_bias = check.one_in(2), in_place = check.one_in(2), has_gaps = check.one_in(2);
        describe_case("scaled columns m %zu, n %zu, bias %d, in place %d, gaps %d, edge %d", m, n, has_bias, in_place,
                      has_gaps, static_cast<int>(edge));
        Operands operands(check, {m, n, false, has_bias});
        if (!has_gaps) operands.close_gaps(check);
        check_scaled_columns(check, operands, has_bias, in_place, edge);
      }
    }
  }
}

}  // namespace dmlcpu::test
