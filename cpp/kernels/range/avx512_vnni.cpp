// range.h for AVX-512.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/range/range.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after both
#include "kernels/lanes/halves_avx512_vnni.inl.h"
// after the lanes
#include "kernels/range/runs.inl.h"

}  // namespace

constinit const RangeKernels avx512_vnni::range = {.float32 = extend<float>, .float16 = extend<Half>};

}  // namespace dmlcpu
