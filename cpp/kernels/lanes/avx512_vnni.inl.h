// Sixteen float32 lanes: the operations of scalar.inl.h, lane by lane.
// Included inside the unnamed namespace of a kernel file.

#include "kernels/lanes/folded_lanes.inl.h"

using Floats = __m512;
using Mask = __mmask16;
constexpr std::size_t kLanes = 16;

inline Floats spread(float value) noexcept { return _mm512_set1_ps(value); }
inline Floats load(const float* values) noexcept { return _mm512_loadu_ps(values); }
inline void store(float* values, Floats lanes) noexcept { _mm512_storeu_ps(values, lanes); }

inline __mmask16 first_lanes(std::size_t count) noexcept { return static_cast<__mmask16>((1U << count) - 1); }
inline Floats load_first(const float* values, std::size_t count, float fill) noexcept {
  return _mm512_mask_loadu_ps(spread(fill), first_lanes(count), values);
}
inline void store_first(float* values, std::size_t count, Floats lanes) noexcept {
  _mm512_mask_storeu_ps(values, first_lanes(count), lanes);
}

inline Floats load_at(const float* values, const std::int32_t* places) noexcept {
  return _mm512_i32gather_ps(_mm512_loadu_si512(places), values, 4);
}

inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm512_fmadd_ps(a, b, c); }
inline Floats square_root(Floats x) noexcept { return _mm512_sqrt_ps(x); }
// Of one float, sooner than of all lanes.
inline float fused(float a, float b, float c) noexcept {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}
inline float square_root(float x) noexcept { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
inline Mask less(Floats a, Floats b) noexcept { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask is_nan(Floats x) noexcept { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
inline Mask either(Mask a, Mask b) noexcept { return static_cast<Mask>(a | b); }
inline Mask both(Mask a, Mask b) noexcept { return static_cast<Mask>(a & b); }
inline bool any(Mask mask) noexcept { return mask != 0; }
inline Floats select(Mask mask, Floats a, Floats b) noexcept { return _mm512_mask_blend_ps(mask, b, a); }
inline Floats smaller(Floats a, Floats b) noexcept { return _mm512_min_ps(a, b); }
inline Floats larger(Floats a, Floats b) noexcept { return _mm512_max_ps(a, b); }

inline Floats magnitude(Floats x) noexcept { return _mm512_andnot_ps(spread(-0.0f), x); }
inline Floats negated(Floats x) noexcept { return _mm512_xor_ps(spread(-0.0f), x); }
inline Floats with_sign_of(Floats x, Floats sign) noexcept {
  return _mm512_or_ps(magnitude(x), _mm512_and_ps(spread(-0.0f), sign));
}
inline Floats power_of_2_within(Floats x) noexcept { return _mm512_and_ps(spread(__builtin_inff()), x); }

inline Floats times_power_of_2(Floats x, Floats shifted) noexcept {
  return _mm512_scalef_ps(x, shifted - spread(0x1.8p23f));
}

inline Floats times_power_of_2_up_to_1(Floats x, Floats shifted) noexcept { return times_power_of_2(x, shifted); }
inline Floats times_normal_power_of_2(Floats x, Floats shifted) noexcept { return times_power_of_2(x, shifted); }

inline Floats exponent_of(Floats x, Floats& significand) noexcept {
  const __m512i bits_i32x16 = _mm512_castps_si512(x);
  const __m512i n_i32x16 = _mm512_srai_epi32(_mm512_sub_epi32(bits_i32x16, _mm512_set1_epi32(0x3f3504f3)), 23);
  significand = _mm512_castsi512_ps(_mm512_sub_epi32(bits_i32x16, _mm512_slli_epi32(n_i32x16, 23)));
  return _mm512_cvtepi32_ps(n_i32x16);
}

inline float largest(Floats x) noexcept {
  return folded_maximum(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
inline float folded(const Floats (&sums)[1]) noexcept {
  return folded_sum(_mm256_add_ps(_mm512_castps512_ps256(sums[0]), _mm512_extractf32x8_ps(sums[0], 1)));
}
