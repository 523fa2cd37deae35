// Eight float32 lanes, whole or the first ones alone, of which the others are loaded as 0.
// Included inside the unnamed namespace of a kernel file.

using Floats = __m256;
using Mask = __m256i;
constexpr std::size_t kLanes = 8;

inline Mask first_lanes(std::size_t count) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Floats zeros() noexcept { return _mm256_setzero_ps(); }
inline Floats spread(float value) noexcept { return _mm256_set1_ps(value); }
inline Floats load(const float* values) noexcept { return _mm256_loadu_ps(values); }
inline Floats load(const float* values, Mask mask) noexcept { return _mm256_maskload_ps(values, mask); }
inline void store(float* values, Floats lanes) noexcept { _mm256_storeu_ps(values, lanes); }
inline void store(float* values, Mask mask, Floats lanes) noexcept { _mm256_maskstore_ps(values, mask, lanes); }
// The second one where they are equal or either is none.
inline Floats larger(Floats a, Floats b) noexcept { return _mm256_max_ps(a, b); }
inline Floats smaller(Floats a, Floats b) noexcept { return _mm256_min_ps(a, b); }
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm256_fmadd_ps(a, b, c); }
