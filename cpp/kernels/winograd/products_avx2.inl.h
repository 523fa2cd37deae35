// Products of winograd.h in tiles of 6 x 16, of 256-bit vectors: 12 accumulators, 2 vectors of the filter, 1 broadcast.
// accumulate(sum, a, b) adds the products of two pairs of 16 bits to each 32-bit lane.
// Included inside the unnamed namespace of a kernel file, after transforms_avx2.inl.h.

constexpr std::size_t kMr = 6;

template <std::size_t rows>
inline void multiply_rows(const std::int16_t* activations, std::size_t tile_stride, const std::int16_t* filter,
                          std::size_t channels, std::int32_t* products) noexcept {
  __m256i acc_i32x8[rows][2];
#pragma GCC unroll 6
  for (std::size_t row = 0; row < rows; ++row) acc_i32x8[row][0] = acc_i32x8[row][1] = _mm256_setzero_si256();
  for (std::size_t channel = 0; channel < channels; channel += 2, filter += 2 * kNr) {
    const __m256i b0_i16x16 = _mm256_load_si256(reinterpret_cast<const __m256i*>(filter));
    const __m256i b1_i16x16 = _mm256_load_si256(reinterpret_cast<const __m256i*>(filter + 16));
#pragma GCC unroll 6
    for (std::size_t row = 0; row < rows; ++row) {
      int pair;
      __builtin_memcpy(&pair, activations + row * tile_stride + channel, sizeof(pair));
      const __m256i a_i16x16 = _mm256_set1_epi32(pair);
      acc_i32x8[row][0] = accumulate(acc_i32x8[row][0], a_i16x16, b0_i16x16);
      acc_i32x8[row][1] = accumulate(acc_i32x8[row][1], a_i16x16, b1_i16x16);
    }
  }
#pragma GCC unroll 6
  for (std::size_t row = 0; row < rows; ++row) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(products + row * kNr), acc_i32x8[row][0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(products + row * kNr + 8), acc_i32x8[row][1]);
  }
}
