// interpolate.h for AVX2.
#include <immintrin.h>

#include "kernels/interpolate/interpolate.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx2.inl.h"
// after the lanes
#include "kernels/interpolate/sums.inl.h"

}  // namespace

constinit const InterpolateKernels avx2::interpolate = {.interpolate = sum_up};

}  // namespace dmlcpu
