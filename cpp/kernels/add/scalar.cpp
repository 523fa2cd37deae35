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
  const std::uint8_t a_flip = run.a_parameters.flip, b_flip = run.b_parameters.flip;
  const IntegerCode code = integer_code(integers, run.output_parameters.flip);
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::int32_t sum = (run.a[i] ^ a_flip) * integers.a_factor + (run.b[i] ^ b_flip) * integers.b_factor;
    run.output[i] = code(sum + integers.offset);
  }
}

}  // namespace

constinit const AddKernels scalar::add = {.run = add_run, .run_integers = add_integers};

}  // namespace dmlcpu
