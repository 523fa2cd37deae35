// Words of plans, for CompiledOperator::describe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operators/operator.h"

namespace dmlcpu {

// "1 thread", "2 threads".
std::string counted(std::int64_t count, std::string_view noun);

// How many tasks there are, of what each if that is told, on no more threads than tasks:
// "tasks: 12, on 2 threads", "tasks: 12 of about 4096 elements, on 2 threads", a property of its own.
std::string tasks_line(std::int64_t tasks, std::int64_t threads, const std::string& of_each = "");
// "12 tasks on 2 threads", the end of one.
std::string tasks_on_threads(std::int64_t tasks, std::int64_t threads);

// A kernel family, by its name in kernels/dispatch.cpp, and the instruction set whose kernel runs: "pack avx2".
std::string kernel_words(const ExecutionTarget& target, std::string_view family);

// The same of gemm with its tiles: "gemm avx2, tiles of 4 x 16, 4 terms a step".
std::string product_kernel_words(const ExecutionTarget& target);

}  // namespace dmlcpu
