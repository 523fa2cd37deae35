// overlap.h for AVX-512.
#include <immintrin.h>

#include "kernels/overlap/overlap.h"

#ifndef __AVX512F__
#error "compile with AVX-512"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx512_vnni.inl.h"

inline unsigned above(Floats a, Floats b) noexcept { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline unsigned at_least(Floats a, Floats b) noexcept { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

// after the lanes
#include "kernels/overlap/blocks.inl.h"

}  // namespace

constinit const OverlapKernels avx512_vnni::overlap = {.overlaps = overlaps_any};

}  // namespace dmlcpu
