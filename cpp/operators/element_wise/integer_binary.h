// ELEMENT_WISE_BINARY of integers: tensors a, b, output, INT32 or INT64, of equal sizes (a stride of 0 broadcasts);
// attribute function, an IntegerBinary. Sums and products wrap, and so does the lowest number divided by -1.
//
//   divide      a / b rounded toward zero
//   remainder   a - b * (a / b rounded toward zero), with the sign of a (ONNX's Mod with fmod)
//   modulus     a - b * (a / b rounded down), with the sign of b (ONNX's Mod)
//   bitwise     of each pair of bits: and, or, exclusive or
//
// Of a divisor 0 the first three are 0, where onnxruntime fails.
#pragma once

#include <cstdint>
#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

// The first six are FloatBinary's.
enum class IntegerBinary : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  remainder,
  modulus,
  bitwise_and,
  bitwise_or,
  bitwise_xor
};

// Throws std::invalid_argument.
std::unique_ptr<CompiledOperator> compile_integer_binary(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
