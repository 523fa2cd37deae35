// MATRIX_MULTIPLY_INTEGER_TO_FLOAT of wide integers, where a or b has more than 8 bits: a float32 product of
// dequantized elements.
#pragma once

#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

std::unique_ptr<CompiledOperator> compile_wide_matrix_multiply(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
