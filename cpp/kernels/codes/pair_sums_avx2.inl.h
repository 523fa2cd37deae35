// Whether vpmaddubsw, which adds products of neighbouring codes in 16 bits, is exact for signed codes.
// Included inside the unnamed namespace of a kernel file.

inline bool all_at_most(__m256i values_i16x16, short most) noexcept {
  const __m256i larger_i16x16 = _mm256_cmpgt_epi16(values_i16x16, _mm256_set1_epi16(most));
  return _mm256_testz_si256(larger_i16x16, larger_i16x16) != 0;
}

// Of pairs of neighbouring codes, the sums of the positive and of the negative ones, negated. Where neither is more
// than 128, sums of products with 0..255 are within 255 * 128.
struct PairSums {
  static constexpr short kMost = 128;

  __m256i positive_i16x16, negative_i16x16;

  explicit PairSums(__m256i codes_i8x32) noexcept {
    const __m256i ones_u8x32 = _mm256_set1_epi8(1);
    positive_i16x16 = _mm256_maddubs_epi16(ones_u8x32, _mm256_max_epi8(codes_i8x32, _mm256_setzero_si256()));
    negative_i16x16 = _mm256_sub_epi16(positive_i16x16, _mm256_maddubs_epi16(ones_u8x32, codes_i8x32));
  }
  PairSums(const PairSums& a, const PairSums& b) noexcept
      : positive_i16x16(_mm256_add_epi16(a.positive_i16x16, b.positive_i16x16)),
        negative_i16x16(_mm256_add_epi16(a.negative_i16x16, b.negative_i16x16)) {}

  __m256i larger() const noexcept { return _mm256_max_epi16(positive_i16x16, negative_i16x16); }
  bool fit() const noexcept { return all_at_most(larger(), kMost); }
};
