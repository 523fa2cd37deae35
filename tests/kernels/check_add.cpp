#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "check_pairs.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::uint8_t reference_sum(std::uint8_t a, std::uint8_t b, const AddRun& run) {
  const AddOperand &a_is = run.a_parameters, &b_is = run.b_parameters, &output_is = run.output_parameters;
  const float a_difference = static_cast<float>(a ^ a_is.flip) - a_is.zero_point;
  const float b_value = (static_cast<float>(b ^ b_is.flip) - b_is.zero_point) * b_is.scale;
  return reference_code(std::fma(a_difference, a_is.scale, b_value) / output_is.scale, output_is.zero_point,
                        output_is.flip);
}

void relate_scales(Check& check, AddRun& run) {
  if (check.one_in(3)) run.b_parameters.scale = run.a_parameters.scale;
  if (check.one_in(3)) run.output_parameters.scale = 2.0f * run.a_parameters.scale;
}

std::uint8_t reference_integer_sum(std::uint8_t a, std::uint8_t b, const AddRun& run) {
  const IntegerSum& integers = run.integers;
  const int t = integers.a_factor * (a ^ run.a_parameters.flip) + integers.b_factor * (b ^ run.b_parameters.flip) +
                integers.offset;
  return reference_integer_code(t, integers.multiplier, integers.addend, run.output_parameters.flip);
}

// Factors up to the largest, and what draw_integer_code draws.
void draw_integers(Check& check, AddRun& run) {
  constexpr int kMostFactors = 0x7fffff / 255;
  const auto factor = [&](int most) {
    const int magnitude = std::min(most, check.one_of<int>({1, 2, 1 + static_cast<int>(check.below(300)), most}));
    return static_cast<std::int16_t>(check.one_in(8) ? -magnitude : magnitude);
  };
  IntegerSum& integers = run.integers;
  integers = {.a_factor = factor(32767), .b_factor = 0, .offset = 0, .multiplier = 0.0F, .addend = 0.0F};
  integers.b_factor = factor(kMostFactors - std::abs(integers.a_factor));
  if (check.one_in(2)) std::swap(integers.a_factor, integers.b_factor);
  const int least = 255 * (std::min<int>(integers.a_factor, 0) + std::min<int>(integers.b_factor, 0));
  const int most = 255 * (std::max<int>(integers.a_factor, 0) + std::max<int>(integers.b_factor, 0));
  integers = draw_integer_code(check, integers, least, most);
}

}  // namespace

void check_add(Check& check) {
  check_pairs<AddRun>(
      check,
      {.name = "add", .kernel = check.table.add->run, .reference = reference_sum, .relate_scales = relate_scales});
  check_pairs<AddRun>(check, {.name = "add of integers",
                              .kernel = check.table.add->run_integers,
                              .reference = reference_integer_sum,
                              .relate_scales = draw_integers});
}

}  // namespace dmlcpu::test
