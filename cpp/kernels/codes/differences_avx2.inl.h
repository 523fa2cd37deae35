// From codes to their differences from a zero point, as floats, eight lanes a vector: what add and multiply begin with.
// Included inside the unnamed namespace of a kernel file.

// An operand's scale, zero point and flip (see add/add.h) in every lane.
struct Operand {
  __m256 scale_f32x8, shifted_zero_point_f32x8;
  __m256i flip_u8x32;
};

// The bits 0x4b0000cc are the float 2^23 + cc: an unpack with 0x4b00 converts a code. The difference to 2^23 +
// zero_point is exact, both being integers below 2^24.
template <class Parameters>
inline Operand spread(const Parameters& operand) noexcept {
  return {_mm256_set1_ps(operand.scale), _mm256_set1_ps(0x1p23f + operand.zero_point),
          _mm256_set1_epi8(static_cast<char>(operand.flip))};
}

// The 32 codes as four vectors of code minus zero point; a half's sixteen codes are four of each, in order.
struct Differences {
  __m256 f32x8[4];
};

inline Differences differences(const std::uint8_t* codes, const Operand& operand) noexcept {
  const __m256i exponent_u16x16 = _mm256_set1_epi16(0x4b00), zero_u8x32 = _mm256_setzero_si256();
  const __m256i codes_u8x32 =
      _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), operand.flip_u8x32);
  const __m256i low_u16x16 = _mm256_unpacklo_epi8(codes_u8x32, zero_u8x32);
  const __m256i high_u16x16 = _mm256_unpackhi_epi8(codes_u8x32, zero_u8x32);
  const __m256i shifted_f32x8[4] = {
      _mm256_unpacklo_epi16(low_u16x16, exponent_u16x16), _mm256_unpackhi_epi16(low_u16x16, exponent_u16x16),
      _mm256_unpacklo_epi16(high_u16x16, exponent_u16x16), _mm256_unpackhi_epi16(high_u16x16, exponent_u16x16)};
  Differences result;
  for (int i = 0; i < 4; ++i) {
    result.f32x8[i] = _mm256_sub_ps(_mm256_castsi256_ps(shifted_f32x8[i]), operand.shifted_zero_point_f32x8);
  }
  return result;
}
