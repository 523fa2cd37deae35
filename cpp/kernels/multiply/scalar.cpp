// The normative arithmetic of multiply.h in plain C++.
#include "kernels/multiply/multiply.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

// The code minus its zero point: exact, two integers of 0..255.
inline float difference(std::uint8_t code, const MultiplyOperand& operand) noexcept {
  return static_cast<float>(code ^ operand.flip) - operand.zero_point;
}

void multiply_run(const MultiplyRun& run) noexcept {
  const MultiplyOperand a = run.a_parameters, b = run.b_parameters, output = run.output_parameters;
  for (std::size_t i = 0; i < run.count; ++i) {
    const float a_value = difference(run.a[i], a) * a.scale, b_value = difference(run.b[i], b) * b.scale;
    run.output[i] = to_code(a_value * b_value / output.scale, output.zero_point, output.flip);
  }
}

void multiply_integers(const MultiplyRun& run) noexcept {
  const std::int32_t offset = run.integers.offset;
  const std::uint8_t a_flip = run.a_parameters.flip, b_flip = run.b_parameters.flip;
  const auto a_zero_point = static_cast<std::int32_t>(run.a_parameters.zero_point);
  const auto b_zero_point = static_cast<std::int32_t>(run.b_parameters.zero_point);
  const IntegerCode code = integer_code(run.integers, run.output_parameters.flip);
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::int32_t product = ((run.a[i] ^ a_flip) - a_zero_point) * ((run.b[i] ^ b_flip) - b_zero_point);
    run.output[i] = code(product + offset);
  }
}

}  // namespace

constinit const MultiplyKernels scalar::multiply = {.run = multiply_run, .run_integers = multiply_integers};

}  // namespace dmlcpu
