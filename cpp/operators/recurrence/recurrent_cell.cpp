#include "operators/recurrence/recurrent_cell.h"

#include <cstring>

namespace dmlcpu {
namespace {

// In place of a.
void combine(const FloatFunctionKernels& kernels, FloatBinary function, float* a, const float* b,
             std::size_t count) noexcept {
  kernels.binary[static_cast<std::size_t>(function)](
      {.a = a, .b = b, .a_repeats = false, .b_repeats = false, .output = a, .count = count});
}

void apply(const FloatFunctionKernels& kernels, const CellFunction& function, const float* input, float* output,
           std::size_t count) noexcept {
  kernels.unary[static_cast<std::size_t>(function.function)](
      {.input = input, .output = output, .count = count, .alpha = function.alpha, .beta = function.beta});
}

// In place, clipped to the bound before.
void activate(const FloatFunctionKernels& kernels, const CellFunctions& functions, const CellFunction& function,
              float* values, std::size_t count) noexcept {
  if (functions.has_bound) {
    apply(kernels, {FloatUnary::clip, -functions.bound, functions.bound}, values, values, count);
  }
  apply(kernels, function, values, values, count);
}

// hidden = (1 - z) * n + z * hidden; both n and scratch are written over.
void mix(const FloatFunctionKernels& kernels, const float* z, float* n, float* scratch, float* hidden,
         std::size_t length) noexcept {
  constexpr float kOne = 1.0F;
  kernels.binary[static_cast<std::size_t>(FloatBinary::subtract)](
      {.a = &kOne, .b = z, .a_repeats = true, .b_repeats = false, .output = scratch, .count = length});
  combine(kernels, FloatBinary::multiply, n, scratch, length);
  combine(kernels, FloatBinary::multiply, hidden, z, length);
  combine(kernels, FloatBinary::add, hidden, n, length);
}

}  // namespace

void rnn_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept {
  combine(kernels, FloatBinary::add, step.sums, step.input, step.length);
  activate(kernels, functions, functions.gate, step.sums, step.length);
  std::memcpy(step.hidden, step.sums, step.length * sizeof(float));
}

void lstm_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions,
               const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  float *i = step.sums, *o = i + length, *f = o + length, *g = f + length;
  combine(kernels, FloatBinary::add, step.sums, step.input, 4 * length);
  activate(kernels, functions, functions.gate, step.sums, 3 * length);
  activate(kernels, functions, functions.candidate, g, length);
  combine(kernels, FloatBinary::multiply, step.cell_state, f, length);
  combine(kernels, FloatBinary::multiply, i, g, length);
  combine(kernels, FloatBinary::add, step.cell_state, i, length);
  apply(kernels, functions.result, step.cell_state, step.hidden, length);
  combine(kernels, FloatBinary::multiply, step.hidden, o, length);
}

void gru_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  float *z = step.sums, *r = z + length, *n = r + length;
  combine(kernels, FloatBinary::add, step.sums, step.input, 2 * length);
  activate(kernels, functions, functions.gate, step.sums, 2 * length);
  if (step.bias != nullptr) combine(kernels, FloatBinary::add, n, step.bias, length);
  combine(kernels, FloatBinary::multiply, n, r, length);
  combine(kernels, FloatBinary::add, n, step.input + 2 * length, length);
  activate(kernels, functions, functions.candidate, n, length);
  mix(kernels, z, n, r, step.hidden, length);
}

void gru_gates(const FloatFunctionKernels& kernels, const CellFunctions& functions,
               const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  combine(kernels, FloatBinary::add, step.sums, step.input, 2 * length);
  activate(kernels, functions, functions.gate, step.sums, 2 * length);
  std::memcpy(step.last, step.sums + length, length * sizeof(float));
  combine(kernels, FloatBinary::multiply, step.last, step.hidden, length);
}

void gru_update(const FloatFunctionKernels& kernels, const CellFunctions& functions,
                const RecurrentStep& step) noexcept {
  const std::size_t length = step.length;
  float *z = step.sums, *r = z + length, *n = step.last;
  combine(kernels, FloatBinary::add, n, step.input + 2 * length, length);
  activate(kernels, functions, functions.candidate, n, length);
  mix(kernels, z, n, r, step.hidden, length);
}

}  // namespace dmlcpu
