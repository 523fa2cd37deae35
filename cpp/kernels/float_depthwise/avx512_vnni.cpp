// float_depthwise.h for AVX-512, in blocks of runs.inl.h and windows.inl.h.
#include <immintrin.h>

#include "kernels/float_depthwise/float_depthwise.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx512_vnni.inl.h"

constexpr std::size_t kVectors = 2, kPixelVectors = 4, kMostTaps = 7;

#include "kernels/float_depthwise/runs.inl.h"
#include "kernels/float_depthwise/windows.inl.h"

}  // namespace

constinit const FloatDepthwiseKernels avx512_vnni::float_depthwise = {.convolve = convolve,
                                                                      .convolve_windows = convolve_windows};

}  // namespace dmlcpu
