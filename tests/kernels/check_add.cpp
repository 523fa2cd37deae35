#include <algorithm>
#include <cmath>
#include <cstdlib>

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
  const std::int64_t a_product = std::int64_t{integers.a_factor} * (a ^ run.a_parameters.flip);
  const std::int64_t b_product = std::int64_t{integers.b_factor} * (b ^ run.b_parameters.flip);
  const auto sum = static_cast<double>(a_product + b_product + integers.offset);
  const double code = std::nearbyint(sum * static_cast<double>(integers.multiplier)) +
                      static_cast<double>(run.output_parameters.zero_point);
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(std::clamp(code, 0.0, 255.0)) ^
                                   run.output_parameters.flip);
}

// Factors up to the largest; sums that end at ties, within the codes, beyond 16 bits and at the largest products.
void draw_integers(Check& check, AddRun& run) {
  const auto factor = [&] {
    const std::size_t magnitude = check.one_of<std::size_t>({1, 2, 1 + check.below(300), 32767 - check.below(3)});
    return static_cast<std::int16_t>(check.one_in(8) ? -static_cast<int>(magnitude) : static_cast<int>(magnitude));
  };
  IntegerSum& integers = run.integers;
  integers = {.a_factor = factor(), .b_factor = factor(), .offset = 0, .multiplier = 0.0F};
  integers.offset = static_cast<std::int32_t>(-static_cast<float>(integers.a_factor) * run.a_parameters.zero_point -
                                              static_cast<float>(integers.b_factor) * run.b_parameters.zero_point) +
                    static_cast<std::int32_t>(check.below(3)) - 1;
  const int largest = 256 * (std::abs(integers.a_factor) + std::abs(integers.b_factor));
  const double most = check.one_of<double>({100.0, 500.0, 40000.0, 0x1p21});
  integers.multiplier = check.one_in(3) ? std::exp2(std::floor(static_cast<float>(std::log2(most / largest))))
                                        : static_cast<float>(most / largest);
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
