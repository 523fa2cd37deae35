#include "operators/recurrence/recurrent_cell.h"

namespace dmlcpu {
namespace {

// In place of a.
void combine(const FloatFunctionKernels& kernels, FloatBinary function, float* a, const float* b,
             std::size_t count) noexcept {
  kernels.binary[static_cast<std::size_t>(function)](
      {.a = a, .b = b, .a_repeats = false, .b_repeats = false, .output = a, .count = count});
}

void apply(const FloatFunctionKernels& kernels, FloatUnary function, const float* input, float* output,
           std::size_t count) noexcept {
  kernels.unary[static_cast<std::size_t>(function)](
      {.input = input, .output = output, .count = count, .alpha = 0.0F, .beta = 0.0F});
}

void rnn_cell(const FloatFunctionKernels& kernels, FloatUnary function, const RecurrentStep& step) noexcept {
  combine(kernels, FloatBinary::add, step.sums, step.input, step.length);
  apply(kernels, function, step.sums, step.hidden, step.length);
}

}  // namespace

void rnn_tanh_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept {
  rnn_cell(kernels, FloatUnary::tanh, step);
}

void rnn_relu_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept {
  rnn_cell(kernels, FloatUnary::relu, step);
}

void lstm_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  float *i = step.sums, *o = i + length, *f = o + length, *g = f + length;
  combine(kernels, FloatBinary::add, step.sums, step.input, 4 * length);
  apply(kernels, FloatUnary::sigmoid, step.sums, step.sums, 3 * length);
  apply(kernels, FloatUnary::tanh, g, g, length);
  combine(kernels, FloatBinary::multiply, step.cell_state, f, length);
  combine(kernels, FloatBinary::multiply, i, g, length);
  combine(kernels, FloatBinary::add, step.cell_state, i, length);
  apply(kernels, FloatUnary::tanh, step.cell_state, step.hidden, length);
  combine(kernels, FloatBinary::multiply, step.hidden, o, length);
}

void gru_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  constexpr float kOne = 1.0F;
  float *z = step.sums, *r = z + length, *n = r + length;
  combine(kernels, FloatBinary::add, step.sums, step.input, 2 * length);
  apply(kernels, FloatUnary::sigmoid, step.sums, step.sums, 2 * length);
  if (step.bias != nullptr) combine(kernels, FloatBinary::add, n, step.bias, length);
  combine(kernels, FloatBinary::multiply, n, r, length);
  combine(kernels, FloatBinary::add, n, step.input + 2 * length, length);
  apply(kernels, FloatUnary::tanh, n, n, length);
  kernels.binary[static_cast<std::size_t>(FloatBinary::subtract)](
      {.a = &kOne, .b = z, .a_repeats = true, .b_repeats = false, .output = r, .count = length});
  combine(kernels, FloatBinary::multiply, n, r, length);
  combine(kernels, FloatBinary::multiply, step.hidden, z, length);
  combine(kernels, FloatBinary::add, step.hidden, n, length);
}

}  // namespace dmlcpu
