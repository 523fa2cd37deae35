// What becomes of a sequence's state in a step of a recurrent operator, once the products are there.
//
//   RNN    hidden = function(input + sums), the function tanh or relu
//   LSTM   i, o, f = sigmoid(input + sums), g = tanh(input + sums), of which input and sums have four parts
//          cell = f * cell + i * g;  hidden = o * tanh(cell)
//   GRU    z, r = sigmoid(input + sums), n = tanh(input + r * (sums + bias)), of which they have three parts
//          hidden = (1 - z) * n + z * hidden
//
// Parts are in ONNX's order: i, o, f, g (its c), and z, r, n (its h). float32, every operation of
// kernels/float_functions rounded once.
#pragma once

#include <cstddef>

#include "kernels/float_functions/float_functions.h"

namespace dmlcpu {

struct RecurrentStep {
  const float* input;  // the parts of the input's products with their weights, biases added
  float* sums;         // the parts of the state's products; written over
  float* hidden;       // the state, read and written
  float* cell_state;   // LSTM: the other one; others: null
  const float* bias;   // GRU: of n's sums, null where there is none; others: null
  std::size_t length;  // of the state, and of each part
};

using RecurrentCell = void (*)(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept;

void rnn_tanh_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept;
void rnn_relu_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept;
void lstm_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept;
void gru_cell(const FloatFunctionKernels& kernels, const RecurrentStep& step) noexcept;

}  // namespace dmlcpu
