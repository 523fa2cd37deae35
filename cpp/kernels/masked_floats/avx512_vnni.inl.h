// Sixteen float32 lanes, whole or the first ones alone, of which the others are loaded as 0.
// Included inside the unnamed namespace of a kernel file.

using Floats = __m512;
using Mask = __mmask16;
constexpr std::size_t kLanes = 16;

inline Mask first_lanes(std::size_t count) noexcept { return static_cast<Mask>((1U << count) - 1); }
inline Floats zeros() noexcept { return _mm512_setzero_ps(); }
inline Floats spread(float value) noexcept { return _mm512_set1_ps(value); }
inline Floats load(const float* values) noexcept { return _mm512_loadu_ps(values); }
inline Floats load(const float* values, Mask mask) noexcept { return _mm512_maskz_loadu_ps(mask, values); }
inline void store(float* values, Floats lanes) noexcept { _mm512_storeu_ps(values, lanes); }
inline void store(float* values, Mask mask, Floats lanes) noexcept { _mm512_mask_storeu_ps(values, mask, lanes); }
// The second one where they are equal or either is none.
inline Floats larger(Floats a, Floats b) noexcept { return _mm512_max_ps(a, b); }
inline Floats smaller(Floats a, Floats b) noexcept { return _mm512_min_ps(a, b); }
inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm512_fmadd_ps(a, b, c); }
