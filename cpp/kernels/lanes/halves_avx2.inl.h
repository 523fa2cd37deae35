// FLOAT16 in memory as eight float32 lanes.
// Included inside the unnamed namespace of a kernel file, after half.inl.h and the lanes, or masked_floats.

inline Floats load(const Half* values) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
}
inline void store(Half* values, Floats lanes) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(values),
                   _mm256_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Floats load_first(const Half* values, std::size_t count, float fill) noexcept {
  Half held[kLanes] = {};
  std::memcpy(held, values, count * sizeof(Half));
  return _mm256_blendv_ps(spread(fill), load(held), _mm256_castsi256_ps(first_lanes(count)));
}
inline void store_first(Half* values, std::size_t count, Floats lanes) noexcept {
  Half held[kLanes];
  store(held, lanes);
  std::memcpy(values, held, count * sizeof(Half));
}
