// What few_channels.h takes of 256-bit vectors in every instruction set that has these: sums, and codes of them.
// Included inside the unnamed namespace of a kernel file, behind codes/avx2.inl.h.

using Integers = __m256i;

constexpr std::size_t kLanes = 8;

inline Integers integers_of(std::int32_t value) noexcept { return _mm256_set1_epi32(value); }
inline Integers minus_product(Integers sum, Integers a, Integers b) noexcept {
  return _mm256_sub_epi32(sum, _mm256_mullo_epi32(a, b));
}

// Vectors are up to four: their codes are one.
template <std::size_t vectors>
inline void store_codes(const FewChannelsRun& run, const Integers (&sums)[vectors], std::size_t channel,
                        std::size_t count, std::uint8_t* output) noexcept {
  const __m256 multiplier_f32x8 = _mm256_set1_ps(run.multiplier[channel]);
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_zero_point));
  const auto unsaturated = [&](std::size_t v) {  // vectors beyond the tile repeat the last one
    const Integers sum = sums[v < vectors ? v : vectors - 1];
    return to_unsaturated(bounded(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), multiplier_f32x8)), zero_point_i32x8);
  };
  const __m256i codes_u8x32 =
      _mm256_xor_si256(saturate_in_order(unsaturated(0), unsaturated(1), unsaturated(2), unsaturated(3)),
                       _mm256_set1_epi8(static_cast<char>(run.flip)));
  if (count == 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), codes_u8x32);
  } else {
    std::uint8_t codes[32];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), codes_u8x32);
    std::memcpy(output, codes, count);
  }
}
