// overlap.h for AVX2.
#include <immintrin.h>

#include "kernels/overlap/overlap.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx2.inl.h"

inline unsigned above(Floats a, Floats b) noexcept {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
}
inline unsigned at_least(Floats a, Floats b) noexcept {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
}

// after the lanes
#include "kernels/overlap/blocks.inl.h"

}  // namespace

constinit const OverlapKernels avx2::overlap = {.overlaps = overlaps_any};

}  // namespace dmlcpu
