// Words of plans, for CompiledOperator::describe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operators/operator.h"

namespace dmlcpu {

// "1 thread", "2 threads".
std::string counted(std::int64_t count, std::string_view noun);

// A kernel family, by its name in kernels/dispatch.cpp, and the instruction set whose kernel runs: "pack avx2".
std::string kernel_words(const ExecutionTarget& target, std::string_view family);

// The same of gemm with its tiles: "gemm avx2, tiles of 4 x 16, 4 terms a step".
std::string product_kernel_words(const ExecutionTarget& target);

}  // namespace dmlcpu
