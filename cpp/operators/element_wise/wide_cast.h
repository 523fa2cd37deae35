// CAST from INT64 and to it: tensors input, output, of equal sizes.
//
//   INT64    of 8-bit integers and INT32: the same number; of FLOAT32: truncated toward zero, saturated, 0 of NaN
//   INT32    of INT64: the low 32 bits
//   FLOAT32  of INT64: rounded half to even
#pragma once

#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

// Throws std::invalid_argument for types of which neither is INT64, or both are.
std::unique_ptr<CompiledOperator> compile_wide_cast(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
