// cast.h for AVX-512. Bound by memory.
#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"

}  // namespace

constinit const CastKernels avx512_vnni::cast = kRuns;

}  // namespace dmlcpu
