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

}  // namespace

constinit const MultiplyKernels scalar::multiply = {.run = multiply_run};

}  // namespace dmlcpu
