// float_functions.h for AVX2: 8 lanes a step, of one input 16. Transcendental functions are bound by arithmetic, others
// by memory.
#include <immintrin.h>

#include <cstring>

#include "kernels/float_functions/float_functions.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

// Functions of several inputs are bound by memory.
namespace single {
#include "kernels/lanes/avx2.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
// after the functions
#include "kernels/lanes/trigonometry.inl.h"
// after both
#include "kernels/float_functions/runs.inl.h"
}  // namespace single

// Those of one input are chains of operations that wait for each other.
namespace paired {
#include "kernels/lanes/paired.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
// after the functions
#include "kernels/lanes/trigonometry.inl.h"
// after both
#include "kernels/float_functions/runs.inl.h"
}  // namespace paired

constexpr FloatFunctionKernels kernels() {
  FloatFunctionKernels made = paired::kRuns;
  for (std::size_t i = 0; i < kFloatBinaryCount; ++i) made.binary[i] = single::kRuns.binary[i];
  made.rotate = single::kRuns.rotate;
  return made;
}

}  // namespace

constinit const FloatFunctionKernels avx2::float_functions = kernels();

}  // namespace dmlcpu
