// From real quotients or products to codes of the offset domain 0..255, eight lanes a vector.
// Included inside the unnamed namespace of a kernel file.

// The smaller of scaled and 512, which makes the same code: 512 + zero_point saturates as well. NaN passes, as vminps
// returns its second operand.
inline __m256 bounded(__m256 scaled_f32x8) noexcept { return _mm256_min_ps(_mm256_set1_ps(512.0f), scaled_f32x8); }

// Whether all multipliers are below 1 in magnitude. Then no conversion of scaled sums overflows, so that none needs a
// bound before it: sums are at most 2^31 in magnitude.
inline bool all_below_1(__m256 multiplier_f32x8) noexcept {
  const __m256 magnitude_f32x8 = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), multiplier_f32x8);
  return _mm256_movemask_ps(_mm256_cmp_ps(magnitude_f32x8, _mm256_set1_ps(1.0f), _CMP_LT_OQ)) == 0xff;
}

// 1.5 * 2^23: its sum with a float of up to 2^22 in magnitude is that float rounded half to even, as a difference of
// bits.
constexpr float kRounder = 12582912.0F;
constexpr std::int32_t kRounderBits = 0x4b400000;

// rne(bounded) + zero_point, before saturation; bounded is at most 513, the zero point of 0..255. The conversion rounds
// half to even. Below -2^31 and for NaN it returns -2^31, and the lowest code follows.
inline __m256i to_unsaturated(__m256 bounded_f32x8, __m256i zero_point_i32x8) noexcept {
  return _mm256_add_epi32(_mm256_cvtps_epi32(bounded_f32x8), zero_point_i32x8);
}

// Saturates four vectors to the bytes of one by two signed packs (32 to 16 to unsigned 8 bits). These work within
// 128-bit halves, so that the result is half 0 of 0, 1, 2, 3, then half 1 of 0, 1, 2, 3, four bytes each.
inline __m256i saturate(__m256i a_i32x8, __m256i b_i32x8, __m256i c_i32x8, __m256i d_i32x8) noexcept {
  return _mm256_packus_epi16(_mm256_packs_epi32(a_i32x8, b_i32x8), _mm256_packs_epi32(c_i32x8, d_i32x8));
}

// The same with the bytes in the order of the operands.
inline __m256i saturate_in_order(__m256i a_i32x8, __m256i b_i32x8, __m256i c_i32x8, __m256i d_i32x8) noexcept {
  const __m256i order_i32x8 = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(saturate(a_i32x8, b_i32x8, c_i32x8, d_i32x8), order_i32x8);
}

// The codes of two vectors of rounded values in 16 bits, as _mm256_packs_epi32 leaves them of 8 and 8 lanes: the first
// 16, then those of the second. The zero point is added with saturation, so that what was out of range stays so.
inline __m256i codes_in_order(__m256i a_i16x16, __m256i b_i16x16, __m256i zero_point_i16x16) noexcept {
  const __m256i a_and_b_u8x32 = _mm256_packus_epi16(_mm256_adds_epi16(a_i16x16, zero_point_i16x16),
                                                    _mm256_adds_epi16(b_i16x16, zero_point_i16x16));
  const __m256i order_i32x8 = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(a_and_b_u8x32, order_i32x8);
}

// Stores the first count codes, 1 <= count <= 16, in two pieces that may overlap: no call, as a copy of any size would
// be.
inline void store_first(std::uint8_t* output, std::size_t count, __m128i codes_u8x16) noexcept {
  std::uint8_t codes[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), codes_u8x16);
  if (count >= 8) {
    std::memcpy(output, codes, 8);
    std::memcpy(output + count - 8, codes + count - 8, 8);
  } else if (count >= 4) {
    std::memcpy(output, codes, 4);
    std::memcpy(output + count - 4, codes + count - 4, 4);
  } else {
    output[0] = codes[0];
    output[count / 2] = codes[count / 2];
    output[count - 1] = codes[count - 1];
  }
}

// Saturates, flips and stores the first count lanes of one vector, 1 <= count <= 8, for tails.
inline void store_tail(std::uint8_t* output, std::size_t count, __m256i lane_i32x8, __m256i flip_u8x32) noexcept {
  const __m256i in_order_u8x32 = saturate_in_order(lane_i32x8, lane_i32x8, lane_i32x8, lane_i32x8);
  const __m128i codes_u8x16 = _mm256_castsi256_si128(_mm256_xor_si256(in_order_u8x32, flip_u8x32));
  if (count == 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(output), codes_u8x16);
  } else {
    std::uint8_t codes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), codes_u8x16);
    std::memcpy(output, codes, count);
  }
}

// All ones in the first count of eight lanes.
inline __m256i lane_mask(std::size_t count) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Division by one positive scale through its reciprocal, as codes/avx512_vnni.inl.h proves it.
struct Reciprocal {
  __m256 bound_f32x8, reciprocal_f32x8, rest_f32x8;
};

inline bool reciprocal_applies(float scale) noexcept {
  return scale >= 0x1p-64f && scale <= 0x1p64f;  // false for NaN
}

inline Reciprocal reciprocal_of(float scale) noexcept {
  const float reciprocal = 1.0f / scale, missing = __builtin_fmaf(-reciprocal, scale, 1.0f);
  return {_mm256_set1_ps(512.0f * scale), _mm256_set1_ps(reciprocal), _mm256_set1_ps(missing / scale)};
}

// At most 513, as to_unsaturated wants it.
inline __m256 bounded_quotient(__m256 value_f32x8, const Reciprocal& by) noexcept {
  const __m256 x_f32x8 = _mm256_min_ps(by.bound_f32x8, value_f32x8);  // NaN, the second operand, passes
  return _mm256_fmadd_ps(x_f32x8, by.reciprocal_f32x8, _mm256_mul_ps(x_f32x8, by.rest_f32x8));
}
