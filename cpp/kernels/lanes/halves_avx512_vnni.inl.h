// FLOAT16 in memory as sixteen float32 lanes.
// Included inside the unnamed namespace of a kernel file, after half.inl.h and the lanes, or masked_floats.

inline __m256i rounded_to_halves(Floats lanes) noexcept {
  return _mm512_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Floats load(const Half* values) noexcept {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)));
}
inline void store(Half* values, Floats lanes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), rounded_to_halves(lanes));
}
inline Floats load_first(const Half* values, std::size_t count, float fill) noexcept {
  const __mmask16 mask = first_lanes(count);
  return _mm512_mask_cvtph_ps(spread(fill), mask, _mm256_maskz_loadu_epi16(mask, values));
}
inline void store_first(Half* values, std::size_t count, Floats lanes) noexcept {
  _mm256_mask_storeu_epi16(values, first_lanes(count), rounded_to_halves(lanes));
}
