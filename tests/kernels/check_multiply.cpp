#include <algorithm>

#include "check_pairs.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::uint8_t reference_product(std::uint8_t a, std::uint8_t b, const MultiplyRun& run) {
  const MultiplyOperand &a_is = run.a_parameters, &b_is = run.b_parameters, &output_is = run.output_parameters;
  const float a_value = (static_cast<float>(a ^ a_is.flip) - a_is.zero_point) * a_is.scale;
  const float b_value = (static_cast<float>(b ^ b_is.flip) - b_is.zero_point) * b_is.scale;
  return reference_code(a_value * b_value / output_is.scale, output_is.zero_point, output_is.flip);
}

void relate_scales(Check& check, MultiplyRun& run) {
  if (check.one_in(3)) run.b_parameters.scale = 0.5f;
  if (check.one_in(3)) run.output_parameters.scale = 32.0f * run.a_parameters.scale;
}

std::uint8_t reference_integer_product(std::uint8_t a, std::uint8_t b, const MultiplyRun& run) {
  const auto difference = [](std::uint8_t code, const MultiplyOperand& operand) {
    return (code ^ operand.flip) - static_cast<int>(operand.zero_point);
  };
  const IntegerProduct& integers = run.integers;
  const int t = difference(a, run.a_parameters) * difference(b, run.b_parameters) + integers.offset;
  return reference_integer_code(t, integers.multiplier, integers.addend, run.output_parameters.flip);
}

// t at both ends of its range; products that end at ties, within the codes or at both ends of 16 bits.
void draw_integers(Check& check, MultiplyRun& run) {
  const auto least_of = [](const MultiplyOperand& operand) { return -static_cast<int>(operand.zero_point); };
  const int a_least = least_of(run.a_parameters), a_most = a_least + 255;
  const int b_least = least_of(run.b_parameters), b_most = b_least + 255;
  const int least = std::min({a_least * b_least, a_least * b_most, a_most * b_least, a_most * b_most});
  const int most = std::max({a_least * b_least, a_least * b_most, a_most * b_least, a_most * b_most});
  run.integers = draw_integer_code(check, run.integers, least, most);
}

}  // namespace

void check_multiply(Check& check) {
  check_pairs<MultiplyRun>(check, {.name = "multiply",
                                   .kernel = check.table.multiply->run,
                                   .reference = reference_product,
                                   .relate_scales = relate_scales});
  check_pairs<MultiplyRun>(check, {.name = "multiply of integers",
                                   .kernel = check.table.multiply->run_integers,
                                   .reference = reference_integer_product,
                                   .relate_scales = draw_integers});
}

}  // namespace dmlcpu::test
