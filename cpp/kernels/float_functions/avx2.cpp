// float_functions.h for AVX2: 8 lanes a step. Transcendental functions are bound by arithmetic, others by memory.
#include <immintrin.h>

#include <cstring>

#include "kernels/float_functions/float_functions.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx2.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
// after the functions
#include "kernels/lanes/trigonometry.inl.h"
// after both
#include "kernels/float_functions/runs.inl.h"

}  // namespace

constinit const FloatFunctionKernels avx2::float_functions = kRuns;

}  // namespace dmlcpu
