// cast.h for AVX-512. Bound by memory.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after both
#include "kernels/lanes/halves_avx512_vnni.inl.h"
// after the lanes
#include "kernels/cast/runs.inl.h"

}  // namespace

constinit const CastKernels avx512_vnni::cast = kRuns;

}  // namespace dmlcpu
