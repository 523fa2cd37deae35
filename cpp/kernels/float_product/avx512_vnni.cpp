// float_product.h for AVX-512: tiles of 4 rows and up to 64 columns, or of one row and up to 128, so that many steps
// are under way at once. Bound by the fused units where b comes from a level-1 cache.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

using Floats = __m512;
using Mask = __mmask16;
constexpr std::size_t kLanes = 16, kVectors = 4, kRowVectors = 8;

inline Mask first_lanes(std::size_t count) noexcept { return static_cast<Mask>((1U << count) - 1); }
inline Floats zeros() noexcept { return _mm512_setzero_ps(); }
inline Floats spread(float value) noexcept { return _mm512_set1_ps(value); }
inline Floats load(const float* values) noexcept { return _mm512_loadu_ps(values); }
inline Floats load(const float* values, Mask mask) noexcept { return _mm512_maskz_loadu_ps(mask, values); }
inline void store(float* values, Floats lanes) noexcept { _mm512_storeu_ps(values, lanes); }
inline void store(float* values, Mask mask, Floats lanes) noexcept { _mm512_mask_storeu_ps(values, mask, lanes); }
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm512_fmadd_ps(a, b, c); }

#include "kernels/float_product/tiles.inl.h"

}  // namespace

constinit const FloatProductKernels avx512_vnni::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
