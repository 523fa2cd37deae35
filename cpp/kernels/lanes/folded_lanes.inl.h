// Eight lanes folded in halves. Included inside the unnamed namespace of a kernel file.

inline float folded_sum(__m256 x_f32x8) noexcept {
  const __m128 quarter_f32x4 = _mm_add_ps(_mm256_castps256_ps128(x_f32x8), _mm256_extractf128_ps(x_f32x8, 1));
  const __m128 pair_f32x4 = _mm_add_ps(quarter_f32x4, _mm_movehl_ps(quarter_f32x4, quarter_f32x4));
  return _mm_cvtss_f32(_mm_add_ss(pair_f32x4, _mm_movehdup_ps(pair_f32x4)));
}

inline float folded_maximum(__m256 x_f32x8) noexcept {
  const __m128 quarter_f32x4 = _mm_max_ps(_mm256_castps256_ps128(x_f32x8), _mm256_extractf128_ps(x_f32x8, 1));
  const __m128 pair_f32x4 = _mm_max_ps(quarter_f32x4, _mm_movehl_ps(quarter_f32x4, quarter_f32x4));
  return _mm_cvtss_f32(_mm_max_ss(pair_f32x4, _mm_movehdup_ps(pair_f32x4)));
}
