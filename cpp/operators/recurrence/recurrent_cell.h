// What becomes of a sequence's state in a step of a recurrent operator, once the products are there.
//
//   RNN    hidden = gate(input + sums)
//   LSTM   i, o, f = gate(input + sums), g = candidate(input + sums), of which input and sums have four parts
//          cell = f * cell + i * g;  hidden = o * result(cell)
//   GRU    z, r = gate(input + sums), n = candidate(input + r * (sums + bias)), of which they have three parts
//          hidden = (1 - z) * n + z * hidden
//
// A GRU that resets the state before the product makes z, r and r * hidden first, of two parts of sums, and the state
// of them and of the product of r * hidden: n = candidate(input + last_sums).
//
// Parts are in ONNX's order: i, o, f, g (its c), and z, r, n (its h). float32, every operation of
// kernels/float_functions rounded once. Where there is a bound, what gate and candidate are given is clipped to it.
#pragma once

#include <cstddef>

#include "kernels/float_functions/float_functions.h"

namespace dmlcpu {

struct CellFunction {
  FloatUnary function;
  float alpha, beta;
};

struct CellFunctions {
  CellFunction gate, candidate, result;
  bool has_bound;
  float bound;
};

struct RecurrentStep {
  const float* input;  // the parts of the input's products with their weights, biases added
  float* sums;         // the parts of the state's products; written over
  float* hidden;       // the state, read and written
  float* cell_state;   // LSTM: the other one; others: null
  const float* bias;   // GRU: of n's sums, null where there is none; others: null
  float* last;         // GRU that resets first: r * hidden at first, then the product of it; others: null
  std::size_t length;  // of the state, and of each part
};

using RecurrentCell = void (*)(const FloatFunctionKernels& kernels, const CellFunctions& functions,
                               const RecurrentStep& step) noexcept;

void rnn_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept;
void lstm_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept;
void gru_cell(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept;

// Of a GRU that resets first: what is done before the second product, and behind it.
void gru_gates(const FloatFunctionKernels& kernels, const CellFunctions& functions, const RecurrentStep& step) noexcept;
void gru_update(const FloatFunctionKernels& kernels, const CellFunctions& functions,
                const RecurrentStep& step) noexcept;

}  // namespace dmlcpu
