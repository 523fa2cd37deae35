// What poolings of floats make of the taps of their windows.
#pragma once

#include <cstdint>
#include <limits>

#include "operators/operator.h"

namespace dmlcpu {

enum class FloatPool : std::uint8_t { averages, maxima, minima, sums };

// Whether taps are added, rather than compared.
inline bool adds(FloatPool function) { return function == FloatPool::averages || function == FloatPool::sums; }

inline const char* pool_words(FloatPool function) {
  if (adds(function)) return function == FloatPool::sums ? "sums" : "averages";
  return function == FloatPool::maxima ? "maxima" : "minima";
}

// Of averages, those of sums.
inline const FloatPoolFunctions& window_kernels(FloatPool function, const ExecutionTarget& target) {
  const FloatPoolKernels& kernels = *target.kernels().float_pool;
  if (adds(function)) return kernels.sums;
  return function == FloatPool::maxima ? kernels.maxima : kernels.minima;
}

// That of two elements.
inline FloatBinary binary_function(FloatPool function) {
  if (adds(function)) return FloatBinary::add;
  return function == FloatPool::maxima ? FloatBinary::maximum : FloatBinary::minimum;
}

// What changes none of them.
inline float neutral_float(FloatPool function) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (adds(function)) return 0.0F;
  return function == FloatPool::maxima ? -kInfinity : kInfinity;
}

}  // namespace dmlcpu
