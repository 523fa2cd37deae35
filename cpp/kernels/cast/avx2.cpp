// cast.h for AVX2. Bound by memory.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/lanes/avx2.inl.h"
// after both
#include "kernels/lanes/halves_avx2.inl.h"
// after the lanes
#include "kernels/cast/runs.inl.h"

}  // namespace

constinit const CastKernels avx2::cast = kRuns;

}  // namespace dmlcpu
