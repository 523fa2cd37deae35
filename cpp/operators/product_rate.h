// How fast products are on this CPU, for choices by estimated cycles, those of threads among them.
#pragma once

#include <algorithm>

#include "operators/operator.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {

// How many times the cycles that follow from the kernels' products_per_cycle products take here. What is beside them,
// such as the additions of transforms, takes no longer. It counts in estimates of time and beside Winograd's
// transforms; what a product's plan chooses (how activations are copied, tiles, whether padding is left out) is chosen
// by the kernels' own figures, for which those estimates were fitted.
inline double slowdown_of_products(const ExecutionTarget& target) {
  return target.isa == Isa::avx512_vnni && halves_wide_products() ? 2 : 1;
}

// What a thread has to do at least to make up for handing tasks over: 3 us, and in convolutions 6, whose tensors are
// often in another core's cache.
inline constexpr double kLeastCyclesOfProduct = 9000, kLeastCyclesOfConvolution = 18000;

// With no more threads than that, and at least one.
inline ExecutionTarget with_at_most(double threads, ExecutionTarget target) {
  if (threads < target.num_threads) target.num_threads = std::max(1, static_cast<int>(threads));
  return target;
}

// Cycles of a product of so many outputs of so many terms, fitted to the kernels of a machine with AVX-512: what is
// done with each output, and products or, where these are few, reading the filter (b, packed).
inline double estimated_product_cycles(double outputs, double terms, double filter_bytes,
                                       const ExecutionTarget& target) {
  constexpr double kCyclesOfOutput = 0.4, kFilterBytesPerCycle = 16;
  const double products = outputs * terms / target.kernels().gemm->products_per_cycle * slowdown_of_products(target);
  return outputs * kCyclesOfOutput + std::max(products, filter_bytes / kFilterBytesPerCycle);
}

}  // namespace dmlcpu
