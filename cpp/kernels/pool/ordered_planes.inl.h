// Averages of whole planes by sums of floats in the order of the taps, a plane in each lane, as one by itself would
// wait for its last addition. In instructions of AVX2. Included inside the unnamed namespace of a kernel file, behind
// codes/scalar.inl.h.

class OrderedPlanes {
 public:
  explicit OrderedPlanes(const PoolPlanes& run) noexcept : run_(run) {}

  void add(std::size_t channel) noexcept {
    channels_[count_++] = channel;
    if (count_ == kChannels) average();
  }

  // Writes the codes of the channels that have been added.
  void average() noexcept {
    if (count_ == 0) return;
    for (std::size_t p = count_; p < kChannels; ++p) channels_[p] = channels_[0];
    float zero_points[kChannels], scales[kChannels];
    for (std::size_t p = 0; p < kChannels; ++p) {
      zero_points[p] = run_.parameters.input_zero_point[channels_[p]];
      scales[p] = run_.parameters.input_scale[channels_[p]];
    }
    zero_point_f32x8_ = _mm256_loadu_ps(zero_points);
    scale_f32x8_ = _mm256_loadu_ps(scales);
    sum_f32x8_ = _mm256_setzero_ps();
    std::size_t tap = 0;
    for (; tap + kTaps <= run_.taps; tap += kTaps) add_taps<true>(tap, kTaps);
    if (tap < run_.taps) add_taps<false>(tap, run_.taps - tap);
    float sums[kChannels];
    _mm256_storeu_ps(sums, sum_f32x8_);
    for (std::size_t p = 0; p < count_; ++p) {
      const std::size_t channel = channels_[p];
      run_.output[channel] = to_code((sums[p] / run_.count) / run_.parameters.output_scale[channel],
                                     run_.parameters.output_zero_point[channel], run_.flip);
    }
    count_ = 0;
  }

 private:
  static constexpr std::size_t kChannels = 8, kTaps = 8;

  template <bool whole>
  void add_taps(std::size_t tap, std::size_t count) noexcept {
    __m128i plane_u8x8[kChannels];
    for (std::size_t p = 0; p < kChannels; ++p) {
      const std::uint8_t* codes = run_.input + channels_[p] * run_.channel_step + tap;
      std::uint8_t present[kTaps] = {};
      if (!whole) std::memcpy(present, codes, count);
      plane_u8x8[p] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(whole ? codes : present));
    }
    // Taps of two planes, of four, of eight.
    __m128i pair_u8x16[4], low_u8x16[2], high_u8x16[2];
    for (std::size_t i = 0; i < 4; ++i) pair_u8x16[i] = _mm_unpacklo_epi8(plane_u8x8[2 * i], plane_u8x8[2 * i + 1]);
    for (std::size_t i = 0; i < 2; ++i) {
      low_u8x16[i] = _mm_unpacklo_epi16(pair_u8x16[2 * i], pair_u8x16[2 * i + 1]);
      high_u8x16[i] = _mm_unpackhi_epi16(pair_u8x16[2 * i], pair_u8x16[2 * i + 1]);
    }
    const __m128i two_taps_u8x16[4] = {
        _mm_unpacklo_epi32(low_u8x16[0], low_u8x16[1]), _mm_unpackhi_epi32(low_u8x16[0], low_u8x16[1]),
        _mm_unpacklo_epi32(high_u8x16[0], high_u8x16[1]), _mm_unpackhi_epi32(high_u8x16[0], high_u8x16[1])};
    const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(run_.flip));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < (whole ? kTaps : count); ++i) {
      const __m128i codes_u8x16 = _mm_xor_si128(two_taps_u8x16[i / 2], flip_u8x16);
      const __m128i tap_u8x8 = i % 2 == 0 ? codes_u8x16 : _mm_unpackhi_epi64(codes_u8x16, codes_u8x16);
      const __m256 codes_f32x8 = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(tap_u8x8));
      const __m256 values_f32x8 = _mm256_mul_ps(_mm256_sub_ps(codes_f32x8, zero_point_f32x8_), scale_f32x8_);
      sum_f32x8_ = _mm256_add_ps(sum_f32x8_, values_f32x8);
    }
  }

  const PoolPlanes& run_;
  __m256 zero_point_f32x8_, scale_f32x8_, sum_f32x8_;
  std::size_t channels_[kChannels], count_ = 0;
};
