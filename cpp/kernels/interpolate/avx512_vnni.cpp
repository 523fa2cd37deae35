// interpolate.h for AVX-512.
#include <immintrin.h>

#include "kernels/interpolate/interpolate.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx512_vnni.inl.h"
// after the lanes
#include "kernels/interpolate/sums.inl.h"

}  // namespace

constinit const InterpolateKernels avx512_vnni::interpolate = {.interpolate = sum_up};

}  // namespace dmlcpu
