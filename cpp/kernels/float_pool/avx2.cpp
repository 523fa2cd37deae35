// float_pool.h for AVX2: four vectors of 8 lanes at a time.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/float_pool/float_pool.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx2.inl.h"

inline Floats load_between(const float* values, std::ptrdiff_t begin, std::ptrdiff_t end, float fill) noexcept {
  const __m256i before_i32x8 = first_lanes(static_cast<std::size_t>(begin));
  const __m256i mask_i32x8 = _mm256_andnot_si256(before_i32x8, first_lanes(static_cast<std::size_t>(end)));
  return _mm256_blendv_ps(spread(fill), _mm256_maskload_ps(values, mask_i32x8), _mm256_castsi256_ps(mask_i32x8));
}

inline Floats even_lanes(Floats first, Floats second) noexcept {
  const __m256d pairs_f64x4 = _mm256_castps_pd(_mm256_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0)));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs_f64x4, _MM_SHUFFLE(3, 1, 2, 0)));
}

using Lanes = __m256i;
inline Lanes lanes_of(unsigned bits) noexcept {
  const __m256i each_i32x8 = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), each_i32x8), each_i32x8);
}
inline Lanes common(Lanes a, Lanes b) noexcept { return _mm256_and_si256(a, b); }
inline Floats load_of(const float* values, Lanes lanes) noexcept { return _mm256_maskload_ps(values, lanes); }

using Found = Mask;
inline Found noted(Found found, Mask mask) noexcept { return either(found, mask); }

// after the lanes
#include "kernels/float_pool/planes.inl.h"
// after the planes
#include "kernels/float_pool/windows.inl.h"
// after the windows
#include "kernels/float_pool/pixels.inl.h"

}  // namespace

constinit const FloatPoolKernels avx2::float_pool = kKernels;

}  // namespace dmlcpu
