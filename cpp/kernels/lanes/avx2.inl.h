// Eight float32 lanes: the operations of scalar.inl.h, lane by lane.
// Included inside the unnamed namespace of a kernel file.

#include "kernels/lanes/folded_lanes.inl.h"

using Floats = __m256;
using Mask = __m256;
constexpr std::size_t kLanes = 8;

inline Floats spread(float value) noexcept { return _mm256_set1_ps(value); }
inline Floats load(const float* values) noexcept { return _mm256_loadu_ps(values); }
inline void store(float* values, Floats lanes) noexcept { _mm256_storeu_ps(values, lanes); }

inline __m256i first_lanes(std::size_t count) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Floats load_first(const float* values, std::size_t count, float fill) noexcept {
  const __m256i mask = first_lanes(count);
  return _mm256_blendv_ps(spread(fill), _mm256_maskload_ps(values, mask), _mm256_castsi256_ps(mask));
}
inline void store_first(float* values, std::size_t count, Floats lanes) noexcept {
  _mm256_maskstore_ps(values, first_lanes(count), lanes);
}

inline Floats load_at(const float* values, const std::int32_t* places) noexcept {
  return _mm256_i32gather_ps(values, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places)), 4);
}

inline Floats fused(Floats a, Floats b, Floats c) noexcept { return _mm256_fmadd_ps(a, b, c); }
inline Floats square_root(Floats x) noexcept { return _mm256_sqrt_ps(x); }
// Of one float, sooner than of all lanes.
inline float fused(float a, float b, float c) noexcept {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}
inline float square_root(float x) noexcept { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
inline Mask less(Floats a, Floats b) noexcept { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Mask is_nan(Floats x) noexcept { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }
inline Mask either(Mask a, Mask b) noexcept { return _mm256_or_ps(a, b); }
inline Mask both(Mask a, Mask b) noexcept { return _mm256_and_ps(a, b); }
inline bool any(Mask mask) noexcept { return _mm256_movemask_ps(mask) != 0; }
inline Floats select(Mask mask, Floats a, Floats b) noexcept { return _mm256_blendv_ps(b, a, mask); }
inline Floats smaller(Floats a, Floats b) noexcept { return _mm256_min_ps(a, b); }
inline Floats larger(Floats a, Floats b) noexcept { return _mm256_max_ps(a, b); }

inline Floats magnitude(Floats x) noexcept { return _mm256_andnot_ps(spread(-0.0f), x); }
inline Floats negated(Floats x) noexcept { return _mm256_xor_ps(spread(-0.0f), x); }
inline Floats with_sign_of(Floats x, Floats sign) noexcept {
  return _mm256_or_ps(magnitude(x), _mm256_and_ps(spread(-0.0f), sign));
}
inline Floats power_of_2_within(Floats x) noexcept { return _mm256_and_ps(spread(__builtin_inff()), x); }

inline Floats times_power_of_2(Floats x, Floats shifted) noexcept {
  const __m256i n_i32x8 = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
  const __m256i first_i32x8 = _mm256_srai_epi32(n_i32x8, 1), second_i32x8 = _mm256_sub_epi32(n_i32x8, first_i32x8);
  const __m256i bias_i32x8 = _mm256_set1_epi32(127);
  const __m256i first_bits_i32x8 = _mm256_slli_epi32(_mm256_add_epi32(first_i32x8, bias_i32x8), 23);
  const __m256i second_bits_i32x8 = _mm256_slli_epi32(_mm256_add_epi32(second_i32x8, bias_i32x8), 23);
  return x * _mm256_castsi256_ps(first_bits_i32x8) * _mm256_castsi256_ps(second_bits_i32x8);
}

// Where n is not above 0: x * 2^(n + 64), which is exact, and 2^-64. The last bits of shifted are n.
inline Floats times_power_of_2_up_to_1(Floats x, Floats shifted) noexcept {
  const __m256i n_at_exponent_i32x8 = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  const __m256i bits_i32x8 = _mm256_add_epi32(n_at_exponent_i32x8, _mm256_set1_epi32((127 + 64) << 23));
  return x * _mm256_castsi256_ps(bits_i32x8) * spread(0x1p-64f);
}

// Where the result, and 2^n, are normal numbers: the last bits of shifted are n.
inline Floats times_normal_power_of_2(Floats x, Floats shifted) noexcept {
  const __m256i n_at_exponent_i32x8 = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return x * _mm256_castsi256_ps(_mm256_add_epi32(n_at_exponent_i32x8, _mm256_set1_epi32(127 << 23)));
}

inline Floats exponent_of(Floats x, Floats& significand) noexcept {
  const __m256i bits_i32x8 = _mm256_castps_si256(x);
  const __m256i n_i32x8 = _mm256_srai_epi32(_mm256_sub_epi32(bits_i32x8, _mm256_set1_epi32(0x3f3504f3)), 23);
  significand = _mm256_castsi256_ps(_mm256_sub_epi32(bits_i32x8, _mm256_slli_epi32(n_i32x8, 23)));
  return _mm256_cvtepi32_ps(n_i32x8);
}

inline float largest(Floats x) noexcept { return folded_maximum(x); }
inline float folded(const Floats (&sums)[2]) noexcept { return folded_sum(sums[0] + sums[1]); }
