// float_functions.h for AVX-512: 16 lanes a step. Transcendental functions are bound by arithmetic, others by memory.
#include <immintrin.h>

#include <cstring>

#include "kernels/float_functions/float_functions.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
// after the functions
#include "kernels/lanes/trigonometry.inl.h"
// after both
#include "kernels/float_functions/runs.inl.h"

}  // namespace

constinit const FloatFunctionKernels avx512_vnni::float_functions = kRuns;

}  // namespace dmlcpu
