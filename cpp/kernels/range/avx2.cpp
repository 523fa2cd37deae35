// range.h for AVX2.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/range/range.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/lanes/avx2.inl.h"
// after both
#include "kernels/lanes/halves_avx2.inl.h"
// after the lanes
#include "kernels/range/runs.inl.h"

}  // namespace

constinit const RangeKernels avx2::range = {.float32 = extend<float>, .float16 = extend<Half>};

}  // namespace dmlcpu
