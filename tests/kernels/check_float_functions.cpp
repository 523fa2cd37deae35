// The other rows against the scalar one, whose values the Python tests compare with the reference; here it is memory
// that counts. Of what rounds to FLOAT8 all rows against the arithmetic of numbers and the distances between them.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "check.h"
#include "kernels/dispatch.h"

namespace dmlcpu::test {
namespace {

const FloatFunctionKernels& scalar_kernels() { return *kernel_table(Isa::scalar).float_functions; }

std::vector<float> draw(Check& check, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = check.number();
  return values;
}

void check_unary(Check& check, std::size_t function, std::size_t count, Edge edge, bool in_place) {
  const std::vector<float> x = draw(check, count);
  std::vector<float> expected(count);
  FloatUnaryRun run = {x.data(), expected.data(), count, check.number(), check.number()};
  scalar_kernels().unary[function](run);

  const GuardedBuffer<float> input(x, edge), output(count, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  run.input = in_place ? output.data() : input.data();
  run.output = output.data();
  describe_case("unary function %zu, count %zu, edge %d, in place %d", function, count, static_cast<int>(edge),
                in_place);
  check.table.float_functions->unary[function](run);
  check.equal_but_for_nans(output, expected);
}

// Rows of a, b and the output, with gaps between them, or all the same one.
struct BinaryRows {
  std::size_t rows;
  std::size_t a_gap, b_gap, output_gap;
  bool a_is_one_row, b_is_one_row;
};

void check_binary(Check& check, std::size_t function, std::size_t count, Edge edge, bool a_repeats, bool b_repeats,
                  const BinaryRows& of) {
  const auto elements = [&](std::size_t columns, std::size_t gap) { return (of.rows - 1) * (columns + gap) + columns; };
  const std::size_t a_columns = a_repeats ? 1 : count, b_columns = b_repeats ? 1 : count;
  const std::vector<float> a = draw(check, of.a_is_one_row ? a_columns : elements(a_columns, of.a_gap));
  const std::vector<float> b = draw(check, of.b_is_one_row ? b_columns : elements(b_columns, of.b_gap));
  const std::vector<float> before = draw(check, elements(count, of.output_gap));
  std::vector<float> expected = before;
  FloatBinaryRun run = {.a = a.data(),
                        .b = b.data(),
                        .a_repeats = a_repeats,
                        .b_repeats = b_repeats,
                        .output = expected.data(),
                        .count = count,
                        .rows = of.rows,
                        .a_row_stride = static_cast<std::ptrdiff_t>(of.a_is_one_row ? 0 : a_columns + of.a_gap),
                        .b_row_stride = static_cast<std::ptrdiff_t>(of.b_is_one_row ? 0 : b_columns + of.b_gap),
                        .output_row_stride = static_cast<std::ptrdiff_t>(count + of.output_gap)};
  scalar_kernels().binary[function](run);

  const GuardedBuffer<float> guarded_a(a, edge), guarded_b(b, edge), output(before.size(), edge);
  std::copy(before.begin(), before.end(), output.data());
  run.a = guarded_a.data();
  run.b = guarded_b.data();
  run.output = output.data();
  describe_case("binary function %zu, count %zu, edge %d, repeating %d %d, %zu rows, one row %d %d", function, count,
                static_cast<int>(edge), a_repeats, b_repeats, of.rows, of.a_is_one_row, of.b_is_one_row);
  check.table.float_functions->binary[function](run);
  check.equal_but_for_nans(output, expected);
}

// The output in the place of a, or of b.
void check_binary_in_place(Check& check, std::size_t function, std::size_t count, Edge edge, bool is_a) {
  const std::vector<float> a = draw(check, count), b = draw(check, count);
  std::vector<float> expected(count);
  FloatBinaryRun run = {a.data(), b.data(), false, false, expected.data(), count};
  scalar_kernels().binary[function](run);

  const GuardedBuffer<float> other(is_a ? b : a, edge), output(count, edge);
  std::copy_n((is_a ? a : b).begin(), count, output.data());
  (is_a ? run.b : run.a) = other.data();
  (is_a ? run.a : run.b) = run.output = output.data();
  describe_case("binary function %zu, count %zu, edge %d, in place of a %d", function, count, static_cast<int>(edge),
                is_a);
  check.table.float_functions->binary[function](run);
  check.equal_but_for_nans(output, expected);
}

// Rows of halves with gaps between them; cosines and sines may be the same for all rows.
void check_rotation(Check& check, std::size_t count, std::size_t rows, std::size_t gap, Edge edge, bool is_one_row) {
  const std::size_t elements = (rows - 1) * (count + gap) + count, angles = is_one_row ? count : elements;
  std::array<std::vector<float>, 2> x, cosines, sines, expected;
  const auto run_of = [&](std::array<RotationHalf, 2> halves) {
    const auto angles_stride = static_cast<std::ptrdiff_t>(is_one_row ? 0 : count + gap);
    const auto stride = static_cast<std::ptrdiff_t>(count + gap);
    return RotationRun{halves[0], halves[1], count, rows, stride, angles_stride, angles_stride, stride};
  };
  for (const std::size_t i : {0U, 1U}) {
    x[i] = draw(check, elements);
    cosines[i] = draw(check, angles);
    sines[i] = draw(check, angles);
    expected[i] = draw(check, elements);
  }
  const std::array<std::vector<float>, 2> before = expected;
  std::array<RotationHalf, 2> halves;
  for (const std::size_t i : {0U, 1U}) {
    halves[i] = {x[i].data(), cosines[i].data(), sines[i].data(), expected[i].data()};
  }
  scalar_kernels().rotate(run_of(halves));

  const std::array<GuardedBuffer<float>, 2> guarded_x = {{{x[0], edge}, {x[1], edge}}},
                                            guarded_cosines = {{{cosines[0], edge}, {cosines[1], edge}}},
                                            guarded_sines = {{{sines[0], edge}, {sines[1], edge}}},
                                            outputs = {{{elements, edge}, {elements, edge}}};
  for (const std::size_t i : {0U, 1U}) {
    std::copy(before[i].begin(), before[i].end(), outputs[i].data());
    halves[i] = {guarded_x[i].data(), guarded_cosines[i].data(), guarded_sines[i].data(), outputs[i].data()};
  }
  describe_case("rotation, count %zu, %zu rows, gap %zu, edge %d, one row %d", count, rows, gap, static_cast<int>(edge),
                is_one_row);
  check.table.float_functions->rotate(run_of(halves));
  for (const std::size_t i : {0U, 1U}) check.equal_but_for_nans(outputs[i], expected[i]);
}

struct Float8 {
  FloatUnary function;
  int mantissa_bits, least_exponent;
  double largest;
};

// x / scale as a number of the type, half to even, times the scale. All but quotient and product is exact.
float quantized_to_float8(float x, float scale, const Float8& type) {
  const float quotient = x / scale;
  if (std::isnan(quotient)) return quotient;
  const double size = std::min(std::fabs(static_cast<double>(quotient)), type.largest);
  const int exponent = size == 0 ? type.least_exponent : std::max(std::ilogb(size), type.least_exponent);
  const double steps = std::ldexp(size, type.mantissa_bits - exponent), below = std::floor(steps);
  const double rest = steps - below, is_odd = std::fmod(below, 2.0);
  const double nearest = below + (rest > 0.5 || (rest == 0.5 && is_odd != 0) ? 1 : 0);
  const double rounded = std::copysign(std::ldexp(nearest, exponent - type.mantissa_bits), quotient);
  return static_cast<float>(rounded) * scale;
}

// Of quotients with all upper halves, among which are the numbers of the types and the middles between them, and those
// next to these.
void check_float8(Check& check, const Float8& type, float scale) {
  std::vector<float> x, expected;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t step : {0xffffffffU, 0U, 1U}) {
      const std::uint32_t bits = (upper << 16) + step;
      float quotient;
      std::memcpy(&quotient, &bits, sizeof(bits));
      x.push_back(std::isfinite(scale) && scale != 0 ? quotient * scale : quotient);
      expected.push_back(quantized_to_float8(x.back(), scale, type));
    }
  }
  const GuardedBuffer<float> input(x, Edge::end), output(x.size(), Edge::end);
  describe_case("unary function %d, all upper halves, scale %g", static_cast<int>(type.function),
                static_cast<double>(scale));
  check.table.float_functions->unary[static_cast<std::size_t>(type.function)](
      {input.data(), output.data(), x.size(), scale, 0.0F});
  check.equal_but_for_nans(output, expected);
}

}  // namespace

void check_float_functions(Check& check) {
  for (const Float8& type : {Float8{FloatUnary::quantized_to_float8_e4m3, 3, -6, 448},
                             Float8{FloatUnary::quantized_to_float8_e5m2, 2, -14, 57344}}) {
    for (const float scale : {1.0F, 0.0123F, 3.1e-5F, -0.5F, 77.0F, 1e-45F, 1.1e-38F, 3e38F, 0.0F,
                              std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      check_float8(check, type, scale);
    }
  }
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (std::size_t function = 0; function < kFloatUnaryCount; ++function) {
        check_unary(check, function, count, edge, false);
        check_unary(check, function, count, edge, true);
      }
      for (std::size_t function = 0; function < kFloatBinaryCount; ++function) {
        for (const bool a_repeats : {false, true}) {
          for (const bool b_repeats : {false, true}) {
            for (const BinaryRows& rows : {BinaryRows{1, 0, 0, 0, false, false}, BinaryRows{3, 2, 0, 1, false, true},
                                           BinaryRows{2, 0, 5, 0, true, false}}) {
              check_binary(check, function, count, edge, a_repeats, b_repeats, rows);
            }
          }
        }
        for (const bool is_a : {false, true}) check_binary_in_place(check, function, count, edge, is_a);
      }
      for (const bool is_one_row : {false, true}) {
        for (const std::size_t rows : {1U, 3U}) check_rotation(check, count, rows, rows - 1, edge, is_one_row);
      }
    }
  }
}

}  // namespace dmlcpu::test
