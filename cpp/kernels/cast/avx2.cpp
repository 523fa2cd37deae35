// cast.h for AVX2. Bound by memory.
#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"

}  // namespace

constinit const CastKernels avx2::cast = kRuns;

}  // namespace dmlcpu
