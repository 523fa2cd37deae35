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

// 2^23 + t of the pair.
float reference_place(std::uint8_t a, std::uint8_t b, const IntegerSum& integers) {
  return 8388608.0F + static_cast<float>(integers.a_factor * a + integers.b_factor * b + integers.offset);
}

std::uint8_t reference_integer_sum(std::uint8_t a, std::uint8_t b, const AddRun& run) {
  const float place = reference_place(a ^ run.a_parameters.flip, b ^ run.b_parameters.flip, run.integers);
  const float code = std::fma(place, run.integers.multiplier, run.integers.addend) - 12582912.0F;
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(std::clamp(code, 0.0F, 255.0F)) ^
                                   run.output_parameters.flip);
}

// Factors up to the largest, at both ends of the range of 2^23 + t; sums that end at ties, within the codes or at both
// ends of 16 bits, with zero points of both parities.
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
  const int span = 255 * (std::abs(integers.a_factor) + std::abs(integers.b_factor));
  const int least = 255 * (std::min<int>(integers.a_factor, 0) + std::min<int>(integers.b_factor, 0));
  const int most_offset = 0x7fffff - span;
  integers.offset =
      check.one_of<int>({0, most_offset, static_cast<int>(check.below(static_cast<std::size_t>(most_offset) + 1))}) -
      least;

  const double most = check.one_of<double>({100.0, 500.0, 20000.0, 65000.0});
  const auto multiplier = std::clamp(static_cast<float>(most / span), 0x1p-15F, 0.25F);
  integers.multiplier = check.one_in(3) ? std::exp2(std::floor(std::log2(multiplier))) : multiplier;
  const auto product = [&](int t) {
    return std::nearbyint((8388608.0 + t) * static_cast<double>(integers.multiplier));
  };
  const double lowest = product(integers.offset + least), highest = product(integers.offset + least + span);
  const double middle = std::floor((lowest + highest) / 2) - 128.0 - static_cast<double>(check.below(2));
  integers.addend =
      static_cast<float>(12582912.0 - check.one_of<double>({middle, lowest + 32768.0, highest - 32766.0}));
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
