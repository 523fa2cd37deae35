// From codes to their differences from a zero point, as floats, sixteen lanes a vector: what add and multiply begin
// with. Included inside the unnamed namespace of a kernel file.

// An operand's scale, zero point and flip (see add/add.h) in every lane.
struct Operand {
  __m512 scale_f32x16, shifted_zero_point_f32x16;
  __m512i flip_u8x64;
};

// The bits 0x4b0000cc are the float 2^23 + cc: a shuffle that leaves the upper bytes as they are converts codes. The
// difference to 2^23 + zero_point is exact, both being integers below 2^24.
template <class Parameters>
inline Operand spread(const Parameters& operand) noexcept {
  return {_mm512_set1_ps(operand.scale), _mm512_set1_ps(0x1p23f + operand.zero_point),
          _mm512_set1_epi8(static_cast<char>(operand.flip))};
}

// The 64 codes as four vectors of code minus zero point; a quarter's sixteen codes are four of each, in order. Where no
// operand has a flip, a kernel may leave it out.
struct Differences {
  __m512 f32x16[4];
};

template <bool flips = true>
inline Differences differences(const std::uint8_t* codes, __mmask64 mask, const Operand& operand) noexcept {
  constexpr __mmask64 kLowestBytes = 0x1111111111111111;
  const __m512i exponent_u32x16 = _mm512_set1_epi32(0x4b000000);
  const __m512i first_four_u8x64 = _mm512_set4_epi32(3, 2, 1, 0);  // of each quarter, in lowest bytes
  __m512i codes_u8x64 = _mm512_maskz_loadu_epi8(mask, codes);
  if constexpr (flips) codes_u8x64 = _mm512_xor_si512(codes_u8x64, operand.flip_u8x64);
  Differences result;
  for (int i = 0; i < 4; ++i) {
    const __m512i four_u8x64 = _mm512_add_epi32(first_four_u8x64, _mm512_set1_epi32(4 * i));
    const __m512i shifted_u32x16 = _mm512_mask_shuffle_epi8(exponent_u32x16, kLowestBytes, codes_u8x64, four_u8x64);
    result.f32x16[i] = _mm512_sub_ps(_mm512_castsi512_ps(shifted_u32x16), operand.shifted_zero_point_f32x16);
  }
  return result;
}
