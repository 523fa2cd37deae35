// Pieces of a softmax of codes that rows one by one and many at once have in common.
// Included inside the unnamed namespace of a kernel file.

struct CodeRange {
  std::uint8_t minimum, maximum;  // in the offset domain
};

// The least byte: pairs first, then the least of eight words.
inline std::uint8_t least(__m512i codes_u8x64) noexcept {
  const __m256i half_u8x32 =
      _mm256_min_epu8(_mm512_castsi512_si256(codes_u8x64), _mm512_extracti64x4_epi64(codes_u8x64, 1));
  const __m128i quarter_u8x16 =
      _mm_min_epu8(_mm256_castsi256_si128(half_u8x32), _mm256_extracti128_si256(half_u8x32, 1));
  const __m128i pairs_u16x8 = _mm_min_epu8(quarter_u8x16, _mm_srli_epi16(quarter_u8x16, 8));
  return static_cast<std::uint8_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(pairs_u16x8)));
}

inline CodeRange range_of(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  __m512i maximum_u8x64 = _mm512_setzero_si512(), minimum_u8x64 = _mm512_set1_epi8(-1);
  for (std::size_t i = 0; i < count; i += 64) {
    const __mmask64 mask = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, codes + i), flip_u8x64);
    maximum_u8x64 = _mm512_mask_max_epu8(maximum_u8x64, mask, maximum_u8x64, codes_u8x64);
    minimum_u8x64 = _mm512_mask_min_epu8(minimum_u8x64, mask, minimum_u8x64, codes_u8x64);
  }
  // 255 minus the largest is the smallest of the inverted ones.
  const __m512i inverted_u8x64 = _mm512_xor_si512(maximum_u8x64, _mm512_set1_epi8(-1));
  return {least(minimum_u8x64), static_cast<std::uint8_t>(255 - least(inverted_u8x64))};
}

// Quotients e / s by the reciprocal of s, correctly rounded where they count.
//
//   q0 as codes/avx512_vnni.inl.h has it, within a unit in the last place of e / s;  rem = e - q0 * s;  q = q0 + rem *
//   r
//
// With r correctly rounded q is the rounded quotient (Markstein's theorem) if nothing underflows. For s of 1 to 2^64
// and quotients from 2^-67 on nothing does: rem is a multiple of the units of q0 and s multiplied, 2^-91 * 2^-23.
// Smaller quotients stay small enough to make the zero point's code, divided by an output scale from 2^-64 on.
struct SumReciprocal {
  __m512 sum_f32x16, reciprocal_f32x16, rest_f32x16;

  __m512 quotient(__m512 e_f32x16) const noexcept {
    const __m512 q0_f32x16 = _mm512_fmadd_ps(e_f32x16, reciprocal_f32x16, _mm512_mul_ps(e_f32x16, rest_f32x16));
    const __m512 rem_f32x16 = _mm512_fnmadd_ps(q0_f32x16, sum_f32x16, e_f32x16);
    return _mm512_fmadd_ps(rem_f32x16, reciprocal_f32x16, q0_f32x16);
  }
};
