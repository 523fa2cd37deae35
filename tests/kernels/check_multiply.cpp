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

}  // namespace

void check_multiply(Check& check) {
  check_pairs<MultiplyRun>(check, {.name = "multiply",
                                   .kernel = check.table.multiply->run,
                                   .reference = reference_product,
                                   .relate_scales = relate_scales});
}

}  // namespace dmlcpu::test
