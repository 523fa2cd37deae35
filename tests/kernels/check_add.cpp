#include <cmath>

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

}  // namespace

void check_add(Check& check) {
  check_pairs<AddRun>(
      check,
      {.name = "add", .kernel = check.table.add->run, .reference = reference_sum, .relate_scales = relate_scales});
}

}  // namespace dmlcpu::test
