#include <algorithm>
#include <cmath>

#include "check.h"
#include "kernels/dispatch.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

float reference_sum(const std::vector<float>& values) {
  float sums[16] = {};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 16] += values[i];
  return reference_folded(sums);
}

// Of differences of codes by the magnitude of a scale: multiples of 2^-31, of which the first is 1.
CodeExponentials reference_exponentials(float scale) {
  CodeExponentials table = {};
  for (std::size_t i = 0; i < 256; ++i) {
    const double power = std::exp(-std::fabs(static_cast<double>(scale)) * static_cast<double>(i));
    const auto units =
        static_cast<std::uint32_t>(std::nearbyint(static_cast<double>(static_cast<float>(power)) * 0x1p31));
    table.values[i] = static_cast<float>(units) * 0x1p-31f;
    for (std::size_t byte = 0; byte < 4; ++byte) table.bytes[byte][i] = static_cast<std::uint8_t>(units >> 8 * byte);
  }
  return table;
}

// That of either type, of codes that may be inverted.
std::uint8_t input_flip_of(Check& check) {
  return static_cast<std::uint8_t>(check.one_in(2) ? check.flip() : check.flip() ^ 0xff);
}

// Exact, as there are less than 2^22 of them.
float reference_code_sum(const std::vector<float>& powers) {
  double sum = 0.0;
  for (const float power : powers) sum += static_cast<double>(power);
  return static_cast<float>(sum);
}

void check_floats(Check& check, std::size_t count, Edge edge, bool in_place) {
  const bool special = check.one_in(4);
  std::vector<float> x(count), expected(count);
  // Of the ordinary ones some powers are less than 2^-60 of the sum, or 0.
  const float step = check.one_of<float>({0.02f, 0.1f, 0.3f});
  for (float& value : x) value = special ? check.number() : check.near_tie(step);
  float maximum = -HUGE_VALF;
  for (const float value : x) maximum = std::fmax(value, maximum);
  for (std::size_t i = 0; i < count; ++i) {
    const float distance = x[i] - maximum;
    expected[i] = distance < -87.0f ? 0.0f : reference_exponential(distance);
  }
  const float sum = reference_sum(expected);
  for (float& value : expected) value /= sum;

  const GuardedBuffer<float> input(x, edge), output(count, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  check.table.softmax->floats(
      {.input = in_place ? output.data() : input.data(), .output = output.data(), .count = count});
  check.equal_but_for_nans(output, expected);
}

// Beside the scalar row, whose values the Python tests compare with the reference.
void check_logarithms(Check& check, std::size_t count, Edge edge, bool in_place) {
  const bool special = check.one_in(4);
  std::vector<float> x(count), expected(count);
  for (float& value : x) value = special ? check.number() : check.near_tie(0.1f);
  kernel_table(Isa::scalar).softmax->logarithms({.input = x.data(), .output = expected.data(), .count = count});

  const GuardedBuffer<float> input(x, edge), output(count, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  check.table.softmax->logarithms(
      {.input = in_place ? output.data() : input.data(), .output = output.data(), .count = count});
  check.equal_but_for_nans(output, expected);
}

// Short rows beside each other, against the kernel of rows.
void check_columns(Check& check, std::size_t count, std::size_t rows, Edge edge, bool in_place, bool logarithms) {
  const std::size_t gap = check.below(3), step = rows + gap, size = (count - 1) * step + rows;
  std::vector<float> x(size), row(count), expected(size, -1.0f);
  for (float& value : x) value = check.one_in(64) ? check.number() : check.near_tie(0.3f);
  if (in_place) expected = x;
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t i = 0; i < count; ++i) row[i] = x[i * step + j];
    const auto kernel = logarithms ? check.table.softmax->logarithms : check.table.softmax->floats;
    kernel({.input = row.data(), .output = row.data(), .count = count});
    for (std::size_t i = 0; i < count; ++i) expected[i * step + j] = row[i];
  }

  const GuardedBuffer<float> input(x, edge), output(size, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  if (!in_place) std::fill_n(output.data(), size, -1.0f);
  const auto kernel = logarithms ? check.table.softmax->logarithm_columns : check.table.softmax->columns;
  kernel({.input = in_place ? output.data() : input.data(),
          .output = output.data(),
          .count = count,
          .rows = rows,
          .input_step = static_cast<std::int64_t>(step),
          .output_step = static_cast<std::int64_t>(step)});
  check.equal_but_for_nans(output, expected);
}

// The codes of a row are span neighbours; both ends occur where there is room.
void check_codes(Check& check, std::size_t count, std::size_t span, Edge edge) {
  std::vector<std::uint8_t> codes(count), expected(count);
  const std::uint8_t input_flip = input_flip_of(check), output_flip = check.flip();
  const std::size_t lowest = check.below(257 - span);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>((lowest + check.below(span)) ^ input_flip);
  if (count > 1) {
    codes.front() = static_cast<std::uint8_t>(lowest ^ input_flip);
    codes.back() = static_cast<std::uint8_t>((lowest + span - 1) ^ input_flip);
  }
  const float scale = check.one_in(2) ? 0.02f : check.scale(), zero_point = check.zero_point();
  const float output_scale = check.one_in(2) ? 1.0f / static_cast<float>(256 * count) : check.scale();
  const CodeExponentials by_difference = reference_exponentials(scale);
  const std::vector<float> exponentials(by_difference.values, by_difference.values + 256);
  std::vector<float> powers(count);
  int maximum = 0;
  for (const std::uint8_t code : codes) maximum = std::max(maximum, code ^ input_flip);
  for (std::size_t i = 0; i < count; ++i) {
    powers[i] = exponentials[static_cast<std::size_t>(maximum - (codes[i] ^ input_flip))];
  }
  const float sum = reference_code_sum(powers);
  for (std::size_t i = 0; i < count; ++i) {
    expected[i] = reference_code(powers[i] / sum / output_scale, zero_point, output_flip);
  }

  const GuardedBuffer<std::uint8_t> input(codes, edge), output(count, edge);
  const GuardedBuffer<float> table(exponentials, edge), kept(count, edge);
  const bool keeps = check.one_in(2);
  const CodeSoftmaxSum actual = check.table.softmax->code_sum({.input = input.data(),
                                                               .count = count,
                                                               .exponentials = table.data(),
                                                               .input_flip = input_flip,
                                                               .powers = keeps ? kept.data() : nullptr});
  check.expect(actual.maximum == maximum && std::memcmp(&actual.sum, &sum, sizeof(sum)) == 0);
  if (keeps) check.equal(kept, powers);
  const GuardedBuffer<float> given(powers, edge);
  check.table.softmax->shares({.powers = given.data(),
                               .count = count,
                               .sum = sum,
                               .output_scale = output_scale,
                               .output_zero_point = zero_point,
                               .output_flip = output_flip,
                               .output = output.data()});
  check.equal(output, expected);
}

// What the codes of a row become by the same table's kernels of a row alone, which are checked against the reference.
struct RowAlone {
  const Check& check;
  const float* exponentials;
  std::uint8_t input_flip;
  float output_scale, output_zero_point;
  std::uint8_t output_flip;

  void write(const std::uint8_t* input, std::size_t count, std::uint8_t* output) const {
    std::vector<float> powers(count);
    const CodeSoftmaxSum of = check.table.softmax->code_sum({.input = input,
                                                             .count = count,
                                                             .exponentials = exponentials,
                                                             .input_flip = input_flip,
                                                             .powers = powers.data()});
    check.table.softmax->shares({.powers = powers.data(),
                                 .count = count,
                                 .sum = of.sum,
                                 .output_scale = output_scale,
                                 .output_zero_point = output_zero_point,
                                 .output_flip = output_flip,
                                 .output = output});
  }
};

// The codes of each row as those of a row alone.
void check_code_columns(Check& check, std::size_t count, std::size_t rows, Edge edge, bool in_place) {
  const std::size_t step = rows + check.below(3), size = (count - 1) * step + rows,
                    span = check.one_of<std::size_t>({40, 100, 256});
  const std::uint8_t input_flip = input_flip_of(check), output_flip = check.flip();
  const float scale = check.one_of<float>({0.0f, 0.02f, 0.3f, 7.0f}), zero_point = check.zero_point();
  const float output_scale = check.one_in(2) ? 1.0f / 256.0f : check.scale();
  std::vector<std::uint8_t> codes(size), row(count), expected(size, 77);
  const CodeExponentials by_difference = reference_exponentials(scale);
  const std::vector<float> exponentials(by_difference.values, by_difference.values + 256);
  const RowAlone alone = {check, exponentials.data(), input_flip, output_scale, zero_point, output_flip};
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(check.below(span));
  if (in_place) expected = codes;
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t i = 0; i < count; ++i) row[i] = codes[i * step + j];
    alone.write(row.data(), count, row.data());
    for (std::size_t i = 0; i < count; ++i) expected[i * step + j] = row[i];
  }

  const GuardedBuffer<std::uint8_t> input(codes, edge), output(size, edge);
  const GuardedBuffer<float> table(exponentials, edge);
  std::fill_n(output.data(), size, std::uint8_t{77});
  if (in_place) std::copy(codes.begin(), codes.end(), output.data());
  check.table.softmax->code_columns({.input = in_place ? output.data() : input.data(),
                                     .output = output.data(),
                                     .count = count,
                                     .rows = rows,
                                     .input_step = static_cast<std::int64_t>(step),
                                     .output_step = static_cast<std::int64_t>(step),
                                     .exponentials = table.data(),
                                     .input_flip = input_flip,
                                     .output_scale = output_scale,
                                     .output_zero_point = zero_point,
                                     .output_flip = output_flip});
  check.equal(output, expected);
}

// Rows together as rows alone. Their codes are span neighbours.
void check_code_rows(Check& check, std::size_t count, std::size_t rows, std::size_t span, Edge edge, bool in_place) {
  const std::size_t step = count + check.below(3), size = (rows - 1) * step + count;
  const std::uint8_t input_flip = input_flip_of(check), output_flip = check.flip();
  const float scale = check.one_of<float>({0.0f, 0.02f, 0.3f, 7.0f}), zero_point = check.zero_point();
  const float output_scale = check.one_of<float>({1.0f / 256.0f, 1.0f / static_cast<float>(256 * count), 3.0f});
  const CodeExponentials exponentials = reference_exponentials(scale);
  std::vector<std::uint8_t> codes(size), expected(size, 77);
  const RowAlone alone = {check, exponentials.values, input_flip, output_scale, zero_point, output_flip};
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t lowest = check.below(257 - span);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t code = lowest + (i == 0 ? 0 : i == 1 ? span - 1 : check.below(span));
      codes[row * step + i] = static_cast<std::uint8_t>(code ^ input_flip);
    }
  }
  if (in_place) expected = codes;
  for (std::size_t row = 0; row < rows; ++row) {
    alone.write(codes.data() + row * step, count, expected.data() + row * step);
  }

  const GuardedBuffer<std::uint8_t> input(codes, edge), output(size, edge);
  std::fill_n(output.data(), size, std::uint8_t{77});
  if (in_place) std::copy(codes.begin(), codes.end(), output.data());
  check.table.softmax_rows->codes({.input = in_place ? output.data() : input.data(),
                                   .output = output.data(),
                                   .count = count,
                                   .rows = rows,
                                   .input_step = static_cast<std::int64_t>(step),
                                   .output_step = static_cast<std::int64_t>(step),
                                   .exponentials = &exponentials,
                                   .input_flip = input_flip,
                                   .output_scale = output_scale,
                                   .output_zero_point = zero_point,
                                   .output_flip = output_flip});
  check.equal(output, expected);
}

float moved(float value, int units) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += static_cast<std::uint32_t>(units);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

// Powers whose shares of the sum are within a few units in the last place of half-way points between codes, or tiny:
// what quotients that are no divisions have to get right.
void check_share_ties(Check& check, float sum, float output_scale) {
  constexpr std::size_t kCount = 1024;
  const auto near_by = [&](int units) {
    return static_cast<int>(check.below(static_cast<std::size_t>(2 * units + 1))) - units;
  };
  std::vector<float> powers(kCount);
  std::vector<std::uint8_t> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const float tie = moved((static_cast<float>(check.below(256)) + 0.5f) * output_scale, near_by(2));
    powers[i] = std::fmin(moved(tie * sum, near_by(1)), sum);
    if (check.one_in(16))
      powers[i] = std::ldexp(1.0f + static_cast<float>(i) * 0x1p-10f, -static_cast<int>(check.below(149)));
    expected[i] = reference_code(powers[i] / sum / output_scale, 3.0f, 0);
  }
  const GuardedBuffer<float> given(powers, Edge::end);
  const GuardedBuffer<std::uint8_t> output(kCount, Edge::end);
  check.table.softmax->shares({.powers = given.data(),
                               .count = kCount,
                               .sum = sum,
                               .output_scale = output_scale,
                               .output_zero_point = 3.0f,
                               .output_flip = 0,
                               .output = output.data()});
  check.equal(output, expected);
}

// Around those that kernels have ways of their own for.
constexpr std::size_t kSpans[] = {1, 63, 64, 65, 127, 128, 129, 256};

void check_rows_together(Check& check) {
  const auto check_count = [&](std::size_t count, std::initializer_list<std::size_t> all_rows) {
    for (const std::size_t rows : all_rows) {
      for (const std::size_t span : kSpans) {
        for (const Edge edge : kEdges) {
          for (const bool in_place : {false, true}) {
            describe_case("softmax, %zu rows of %zu together, codes of a span of %zu, edge %d, in place %d", rows,
                          count, span, static_cast<int>(edge), in_place);
            check_code_rows(check, count, rows, span, edge, in_place);
          }
        }
      }
    }
  };
  for (const std::size_t count : run_lengths()) {
    if (count > 0) check_count(count, {1, 2, 3});
  }
  check_count((std::size_t{1} << 19) + 70, {2});  // more than a lane sums at once
}

}  // namespace

void check_softmax(Check& check) {
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const float fraction = static_cast<float>(check.below(1U << 23)) * 0x1p-23f;
    const float sum = std::ldexp(1.0f + fraction, static_cast<int>(check.below(repeat % 4 == 0 ? 66 : 8)));
    const float output_scale =
        check.one_in(2) ? 0x1p-8f : std::ldexp(1.0f + fraction * fraction, -static_cast<int>(check.below(66)));
    describe_case("softmax, shares of %a by %a", static_cast<double>(sum), static_cast<double>(output_scale));
    check_share_ties(check, sum, output_scale);
  }
  for (const std::size_t count : run_lengths()) {
    if (count == 0 || count > kMostSoftmaxColumnElements) continue;
    for (const std::size_t rows : {1U, 2U, 7U, 8U, 9U, 15U, 16U, 17U, 63U, 64U, 65U, 100U}) {
      for (const Edge edge : kEdges) {
        for (const bool in_place : {false, true}) {
          describe_case("softmax, %zu columns of %zu, edge %d, in place %d", rows, count, static_cast<int>(edge),
                        in_place);
          check_columns(check, count, rows, edge, in_place, false);
          check_columns(check, count, rows, edge, in_place, true);
          check_code_columns(check, count, rows, edge, in_place);
        }
      }
    }
  }
  for (const std::size_t count : run_lengths()) {
    if (count == 0) continue;
    for (const Edge edge : kEdges) {
      for (const bool in_place : {false, true}) {
        describe_case("softmax, count %zu, edge %d, in place %d", count, static_cast<int>(edge), in_place);
        for (int repeat = 0; repeat < 4; ++repeat) {
          check_floats(check, count, edge, in_place);
          check_logarithms(check, count, edge, in_place);
        }
      }
      for (const std::size_t span : kSpans) {
        describe_case("softmax, count %zu, edge %d, codes of a span of %zu", count, static_cast<int>(edge), span);
        check_codes(check, count, span, edge);
      }
    }
  }
  for (const std::size_t count : {4096U, 4097U, 9000U}) {  // more than a lane sums at once
    for (const std::size_t span : kSpans) {
      describe_case("softmax, count %zu, codes of a span of %zu", count, span);
      check_codes(check, count, span, Edge::end);
    }
  }
  if (check.table.softmax_rows != nullptr) check_rows_together(check);
}

}  // namespace dmlcpu::test
