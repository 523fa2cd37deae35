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

// Integers are clamped, not floats: compilers make branches of the latter, which random codes mispredict.
void add_integers(const AddRun& run) noexcept {
  constexpr double kRoundToInteger = 0x1.8p52;
  const IntegerSum integers = run.integers;
  const auto multiplier = static_cast<double>(integers.multiplier);
  const double base = static_cast<double>(integers.addend) - 0x1.8p23;
  const AddOperand a = run.a_parameters, b = run.b_parameters, output = run.output_parameters;
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::int32_t sum = (run.a[i] ^ a.flip) * integers.a_factor + (run.b[i] ^ b.flip) * integers.b_factor;
    // Exact both: a product of 24 by 24 bits, and a sum below 2^15 in magnitude of multiples of 2^-38.
    const double product = (0x1p23 + static_cast<double>(sum + integers.offset)) * multiplier;
    const double exact = product + base;
    const auto rounded = static_cast<std::int32_t>((exact + kRoundToInteger) - kRoundToInteger);
    const std::int32_t at_least_0 = rounded > 0 ? rounded : 0;
    run.output[i] = static_cast<std::uint8_t>((at_least_0 < 255 ? at_least_0 : 255) ^ output.flip);
  }
}

}  // namespace

constinit const AddKernels scalar::add = {.run = add_run, .run_integers = add_integers};

}  // namespace dmlcpu
