// float_depthwise.h for AVX2 with FMA, in blocks of runs.inl.h and windows.inl.h.
#include <immintrin.h>

#include "kernels/float_depthwise/float_depthwise.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx2.inl.h"

constexpr std::size_t kVectors = 2, kPixelVectors = 4, kMostTaps = 4;

#include "kernels/float_depthwise/runs.inl.h"
#include "kernels/float_depthwise/windows.inl.h"

}  // namespace

constinit const FloatDepthwiseKernels avx2::float_depthwise = {.convolve = convolve,
                                                               .convolve_windows = convolve_windows};

}  // namespace dmlcpu
