#include "bindings/execution_target.h"

#include <optional>
#include <stdexcept>

#include "runtime/thread_pool.h"

namespace dmlcpu {

ExecutionTarget execution_target(const std::string& isa, int num_threads) {
  const std::optional<Isa> row = isa_from_name(isa);
  if (!row || !unavailable_reason(*row).empty()) {
    throw std::invalid_argument("no instruction set of this machine is named " + isa);
  }
  if (num_threads < 1 || num_threads > kMostThreads) {
    throw std::invalid_argument("threads are 1 to " + std::to_string(kMostThreads));
  }
  return {*row, num_threads};
}

}  // namespace dmlcpu
