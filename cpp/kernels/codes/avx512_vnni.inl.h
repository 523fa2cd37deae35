// From real quotients or products to codes of the offset domain 0..255, sixteen lanes a vector.
// Included inside the unnamed namespace of a kernel file.

constexpr __mmask16 kAllLanes = 0xffff;

// The first count of sixteen lanes, all of them from 16 on.
inline __mmask16 lane_mask(std::size_t count) noexcept {
  return count >= 16 ? kAllLanes : static_cast<__mmask16>((1U << count) - 1);
}

// The smaller of scaled and 512, which makes the same code: 512 + zero_point saturates as well. NaN passes, as vminps
// returns its second operand.
inline __m512 bounded(__m512 scaled_f32x16) noexcept { return _mm512_min_ps(_mm512_set1_ps(512.0f), scaled_f32x16); }

// The lanes whose multiplier is below 1 in magnitude. Where all of them are, no conversion of scaled sums overflows, so
// that none needs a bound before it: sums are at most 2^31 in magnitude.
inline __mmask16 below_1(__m512 multiplier_f32x16) noexcept {
  return _mm512_cmp_ps_mask(_mm512_abs_ps(multiplier_f32x16), _mm512_set1_ps(1.0F), _CMP_LT_OQ);
}

// 1.5 * 2^23: its sum with a float of up to 2^22 in magnitude is that float rounded half to even, as a difference of
// bits.
constexpr float kRounder = 12582912.0F;
constexpr std::int32_t kRounderBits = 0x4b400000;

// rne(bounded) + zero_point, before saturation; bounded is at most 513, the zero point of 0..255. The conversion rounds
// half to even. Below -2^31 and for NaN it returns -2^31, and the lowest code follows.
inline __m512i to_unsaturated(__m512 bounded_f32x16, __m512i zero_point_i32x16) noexcept {
  return _mm512_add_epi32(_mm512_cvtps_epi32(bounded_f32x16), zero_point_i32x16);
}

// Saturates four vectors to the bytes of one by two signed packs (32 to 16 to unsigned 8 bits). These work within
// 128-bit quarters, so that the result is quarter 0 of 0, 1, 2, 3, then quarter 1 of 0, 1, 2, 3, ..., four bytes each.
inline __m512i saturate(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16) noexcept {
  return _mm512_packus_epi16(_mm512_packs_epi32(a_i32x16, b_i32x16), _mm512_packs_epi32(c_i32x16, d_i32x16));
}

// The zero points of the words that the first pack makes of two vectors.
struct PairZeroPoints {
  __m512i low_i16x32, high_i16x32;
};

// The same of rounded values without their zero points, which are added between the packs, to 32 lanes at a time: both
// packs and the sum saturate, and a sum that does is beyond 0..255 on the right side.
inline __m512i saturate(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16,
                        const PairZeroPoints& zero_points) noexcept {
  const __m512i low_i16x32 = _mm512_adds_epi16(_mm512_packs_epi32(a_i32x16, b_i32x16), zero_points.low_i16x32);
  const __m512i high_i16x32 = _mm512_adds_epi16(_mm512_packs_epi32(c_i32x16, d_i32x16), zero_points.high_i16x32);
  return _mm512_packus_epi16(low_i16x32, high_i16x32);
}

inline __m512i saturate(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16,
                        __m512i zero_point_i16x32) noexcept {
  return saturate(a_i32x16, b_i32x16, c_i32x16, d_i32x16, PairZeroPoints{zero_point_i16x32, zero_point_i16x32});
}

// The bytes of saturate in the order of its operands.
inline __m512i in_order(__m512i saturated_u8x64) noexcept {
  const __m512i order_i32x16 = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order_i32x16, saturated_u8x64);
}

inline __m512i saturate_in_order(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16) noexcept {
  return in_order(saturate(a_i32x16, b_i32x16, c_i32x16, d_i32x16));
}

inline __m512i saturate_in_order(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16,
                                 __m512i zero_point_i16x32) noexcept {
  return in_order(saturate(a_i32x16, b_i32x16, c_i32x16, d_i32x16, zero_point_i16x32));
}

// Saturates, flips and stores the masked lanes of one vector, for tails.
inline void store_tail(std::uint8_t* output, __mmask16 mask, __m512i unsaturated_i32x16, __m512i flip_u8x64) noexcept {
  const __m512i at_least_0_i32x16 = _mm512_max_epi32(unsaturated_i32x16, _mm512_setzero_si512());
  const __m128i codes_u8x16 = _mm512_cvtusepi32_epi8(at_least_0_i32x16);
  _mm_mask_storeu_epi8(output, mask, _mm_xor_si128(codes_u8x16, _mm512_castsi512_si128(flip_u8x64)));
}

// Division by one positive scale, in place of the three times slower instruction: a multiplication by the reciprocal
// and by what its rounding has left out. The result may differ from the quotient; the code made of it does not.
//
//   r = 1 / s;  rest = (1 - r * s) / s;  q = x * r + x * rest      each rounded once (1 - r * s is exact, the sum
//   fused)
//
// x is cut to 512 s, which is exact and makes the same code. Where x * r is below the range of floats, q is -infinity
// or NaN (as it is for x = -infinity): the lowest code, rightly. Below 1/4 in magnitude, x denormal included, q rounds
// to 0 as the quotient does. From 1/4 on nothing underflows, for 1 - r * s is 0 or at least 2^-47, so that x * rest is
// 0 or at least 2^-50, and rest at least 2^-111: so every step commutes with a scaling of x and s by powers of two, and
// q is within 0.51 units in the last place of the exact quotient. Hence q and the rounded quotient can only be on
// different sides of h = n + 1/2, |h| < 256, if x is one of the five floats around h * s. They never are: `kernel_check
// --every-scale` tries these for all 2^23 significands of s. (With rest = (1 - r * s) * r one of them fails.)
struct Reciprocal {
  __m512 bound_f32x16, reciprocal_f32x16, rest_f32x16;
};

inline bool reciprocal_applies(float scale) noexcept {
  return scale >= 0x1p-64f && scale <= 0x1p64f;  // false for NaN
}

// The same for the masked lanes of a vector of scales.
inline bool reciprocal_applies(__m512 scale_f32x16, __mmask16 mask) noexcept {
  const __mmask16 at_least = _mm512_mask_cmp_ps_mask(mask, scale_f32x16, _mm512_set1_ps(0x1p-64f), _CMP_GE_OQ);
  return _mm512_mask_cmp_ps_mask(at_least, scale_f32x16, _mm512_set1_ps(0x1p64f), _CMP_LE_OQ) == mask;
}

inline Reciprocal reciprocal_of(__m512 scale_f32x16) noexcept {
  const __m512 one_f32x16 = _mm512_set1_ps(1.0f);
  const __m512 reciprocal_f32x16 = _mm512_div_ps(one_f32x16, scale_f32x16);
  const __m512 missing_f32x16 = _mm512_fnmadd_ps(reciprocal_f32x16, scale_f32x16, one_f32x16);
  return {_mm512_mul_ps(_mm512_set1_ps(512.0f), scale_f32x16), reciprocal_f32x16,
          _mm512_div_ps(missing_f32x16, scale_f32x16)};
}

inline Reciprocal reciprocal_of(float scale) noexcept {
  const float reciprocal = 1.0f / scale, missing = __builtin_fmaf(-reciprocal, scale, 1.0f);
  return {_mm512_set1_ps(512.0f * scale), _mm512_set1_ps(reciprocal), _mm512_set1_ps(missing / scale)};
}

// q above, for an x that is at most 512 s.
inline __m512 quotient(__m512 x_f32x16, const Reciprocal& by) noexcept {
  return _mm512_fmadd_ps(x_f32x16, by.reciprocal_f32x16, _mm512_mul_ps(x_f32x16, by.rest_f32x16));
}

// At most 513, as to_unsaturated wants it.
inline __m512 bounded_quotient(__m512 value_f32x16, const Reciprocal& by) noexcept {
  return quotient(_mm512_min_ps(by.bound_f32x16, value_f32x16), by);  // NaN, the second operand, passes
}
