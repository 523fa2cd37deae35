// The normative arithmetic of add.h in plain C++.
#include "kernels/add/add.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

// The code minus its zero point: exact, two integers of 0..255.
inline float difference(std::uint8_t code, const AddOperand& operand) noexcept {
  return static_cast<float>(code ^ operand.flip) - operand.zero_point;
}

void add_run(const AddRun& run) noexcept {
  const AddOperand a = run.a_parameters, b = run.b_parameters, output = run.output_parameters;
  for (std::size_t i = 0; i < run.count; ++i) {
    const float b_value = difference(run.b[i], b) * b.scale;
    const float sum = __builtin_fmaf(difference(run.a[i], a), a.scale, b_value);
    run.output[i] = to_code(sum / output.scale, output.zero_point, output.flip);
  }
}

void add_integers(const AddRun& run) noexcept {
  const IntegerSum integers = run.integers;
  const AddOperand a = run.a_parameters, b = run.b_parameters, output = run.output_parameters;
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::int32_t sum = (run.a[i] ^ a.flip) * integers.a_factor + (run.b[i] ^ b.flip) * integers.b_factor;
    // Exact, as a product of 25 by 24 bits.
    const double product = static_cast<double>(sum + integers.offset) * static_cast<double>(integers.multiplier);
    run.output[i] = to_code(static_cast<float>(__builtin_nearbyint(product)), output.zero_point, output.flip);
  }
}

}  // namespace

constinit const AddKernels scalar::add = {.run = add_run, .run_integers = add_integers};

}  // namespace dmlcpu
