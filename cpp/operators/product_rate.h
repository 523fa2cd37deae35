// How fast products are on this CPU, for choices by estimated cycles.
#pragma once

#include "operators/operator.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {

// How many times the cycles that follow from the kernels' products_per_cycle products take here. What is beside them,
// such as the additions of transforms, takes no longer.
inline double slowdown_of_products(const ExecutionTarget& target) {
  const bool are_wide = target.isa == Isa::avx512_vnni || target.isa == Isa::amx_int8;
  return are_wide && halves_wide_products() ? 2 : 1;
}

}  // namespace dmlcpu
