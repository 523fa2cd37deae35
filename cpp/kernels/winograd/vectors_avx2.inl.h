// The vectors of winograd.h's kernels for AVX2, and what they make codes by: panels of 16 output channels. Products in
// tiles of 6 x 16: 12 accumulators, 2 vectors of the filter, 1 broadcast.
// Included inside the unnamed namespace of a kernel file, after codes/avx2.inl.h and transforms.inl.h.

constexpr std::size_t kMr = 6, kNr = 16;

using Vector = __m256i;
using Words [[gnu::vector_size(32)]] = std::uint16_t;
using StepWords = Words;
using Sums [[gnu::vector_size(32)]] = std::uint32_t;

inline Vector widened(const std::uint8_t* codes, Words) noexcept { return _mm256_cvtepi8_epi16(load<__m128i>(codes)); }
inline Vector shuffled(Vector bytes, __m128i order) noexcept {
  return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(order));
}

// Makes codes of the sums of a panel's pixels. Where no conversion overflows, none is bounded.
class Requantizer {
 public:
  explicit Requantizer(const WinogradOutputRun& run) noexcept
      : low_multiplier_f32x8_(_mm256_loadu_ps(run.multiplier)),
        high_multiplier_f32x8_(_mm256_loadu_ps(run.multiplier + 8)),
        zero_point_i16x16_(_mm256_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x32_(_mm256_set1_epi8(static_cast<char>(run.flip))),
        channels_(run.channels) {}

  bool converts_within_range() const noexcept {
    return all_below_1(low_multiplier_f32x8_) && all_below_1(high_multiplier_f32x8_);
  }

  // Two pixels, which may be the same.
  template <bool within_range>
  void store_pair(std::uint8_t* first, std::uint8_t* second, const std::int32_t* first_sums,
                  const std::int32_t* second_sums) const noexcept {
    const __m256i codes_u8x32 = _mm256_xor_si256(
        codes_in_order(rounded<within_range>(first_sums), rounded<within_range>(second_sums), zero_point_i16x16_),
        flip_u8x32_);
    store(first, _mm256_castsi256_si128(codes_u8x32));
    store(second, _mm256_extracti128_si256(codes_u8x32, 1));
  }

 private:
  // Of 16 channels, in 16 bits.
  template <bool within_range>
  __m256i rounded(const std::int32_t* sums) const noexcept {
    const __m256 low_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(load<Vector>(sums)), low_multiplier_f32x8_);
    const __m256 high_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(load<Vector>(sums + 8)), high_multiplier_f32x8_);
    return _mm256_packs_epi32(_mm256_cvtps_epi32(within_range ? low_f32x8 : bounded(low_f32x8)),
                              _mm256_cvtps_epi32(within_range ? high_f32x8 : bounded(high_f32x8)));
  }

  void store(std::uint8_t* output, __m128i codes_u8x16) const noexcept {
    if (channels_ == kNr) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output), codes_u8x16);
    } else {
      store_first(output, channels_, codes_u8x16);
    }
  }

  __m256 low_multiplier_f32x8_, high_multiplier_f32x8_;
  __m256i zero_point_i16x16_, flip_u8x32_;
  std::size_t channels_;
};
