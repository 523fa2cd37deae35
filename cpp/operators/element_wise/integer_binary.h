// ELEMENT_WISE_BINARY of integers: tensors a, b, output, INT32 or INT64, of equal sizes (a stride of 0 broadcasts);
// attribute function, a FloatBinary but for the quotient. Sums and products wrap.
#pragma once

#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

// Throws std::invalid_argument.
std::unique_ptr<CompiledOperator> compile_integer_binary(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
