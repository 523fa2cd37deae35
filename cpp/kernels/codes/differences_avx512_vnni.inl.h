// From codes to their differences from a zero point, as floats, sixteen lanes a vector: what add and multiply begin
// with. Included inside the unnamed namespace of a kernel file.

// An operand's scale, zero point and flip (see add/add.h) in every lane.
struct Operand {
  __m512 scale_f32x16, shifted_zero_point_f32x16;
  __m512i flip_u8x64;
};

// The bits 0x4b0000cc are the float 2^23 + cc: an unpack with 0x4b00 converts a code. The difference to 2^23 +
// zero_point is exact, both being integers below 2^24.
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
  const __m512i exponent_u16x32 = _mm512_set1_epi16(0x4b00), zero_u8x64 = _mm512_setzero_si512();
  __m512i codes_u8x64 = _mm512_maskz_loadu_epi8(mask, codes);
  if constexpr (flips) codes_u8x64 = _mm512_xor_si512(codes_u8x64, operand.flip_u8x64);
  const __m512i low_u16x32 = _mm512_unpacklo_epi8(codes_u8x64, zero_u8x64);
  const __m512i high_u16x32 = _mm512_unpackhi_epi8(codes_u8x64, zero_u8x64);
  const __m512i shifted_f32x16[4] = {
      _mm512_unpacklo_epi16(low_u16x32, exponent_u16x32), _mm512_unpackhi_epi16(low_u16x32, exponent_u16x32),
      _mm512_unpacklo_epi16(high_u16x32, exponent_u16x32), _mm512_unpackhi_epi16(high_u16x32, exponent_u16x32)};
  Differences result;
  for (int i = 0; i < 4; ++i) {
    result.f32x16[i] = _mm512_sub_ps(_mm512_castsi512_ps(shifted_f32x16[i]), operand.shifted_zero_point_f32x16);
  }
  return result;
}
