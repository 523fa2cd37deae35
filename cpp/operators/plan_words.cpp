#include "operators/plan_words.h"

#include <algorithm>
#include <stdexcept>

namespace dmlcpu {

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string tasks_line(std::int64_t tasks, std::int64_t threads, const std::string& of_each) {
  return "tasks: " + std::to_string(tasks) + (of_each.empty() ? "" : " of " + of_each) + ", on " +
         counted(std::min(tasks, threads), "thread");
}

std::string tasks_on_threads(std::int64_t tasks, std::int64_t threads) {
  return counted(tasks, "task") + " on " + counted(std::min(tasks, threads), "thread");
}

std::string kernel_words(const ExecutionTarget& target, std::string_view family) {
  for (const KernelOrigin& origin : kernel_origins(target.isa)) {
    if (origin.family == family) return std::string(family) + " " + std::string(origin.isa);
  }
  throw std::logic_error("no kernel family is named " + std::string(family));
}

std::string product_kernel_words(const ExecutionTarget& target) {
  const GemmKernels& gemm = *target.kernels().gemm;
  return kernel_words(target, "gemm") + ", tiles of " + std::to_string(gemm.mr) + " x " + std::to_string(gemm.nr) +
         ", " + counted(static_cast<std::int64_t>(gemm.kr), "term") + " a step";
}

}  // namespace dmlcpu
