// What an operator, a graph or a function is compiled for, as Python names it.
#pragma once

#include <string>

#include "operators/operator.h"

namespace dmlcpu {

// Throws std::invalid_argument unless the machine has the instruction set and threads are from 1 to kMostThreads.
ExecutionTarget execution_target(const std::string& isa, int num_threads);

}  // namespace dmlcpu
