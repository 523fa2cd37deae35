// Averages of 64 channels by integer sums, four times as quick as sums of floats, where these tell the same code.
// Included inside the unnamed namespace of a kernel file, behind codes/avx512_vnni.inl.h.
//
// With t taps, F = sum of (x - zero_point), exact, and s the float32 sum, u = 2^-24:
//
//   each value differs from (x - zero_point) * scale by at most u * 255 scale; so do partial sums of k values from
//   those of exact values, by at most u * 255 k scale a step: |s - F scale| <= 1.01 u * 255 scale (t^2 / 2 + 3 t / 2)
//   the two quotients round twice, F * ratio three times: 5 u of what they are, at most 255 t ratio
//
// where ratio = scale / (count * output_scale). So F * ratio is within
//
//   2^-16 * ratio * t * (t / 2 + 8)
//
// of what the sums of floats come to before it is rounded to an integer; if no half-way point is as near, the code is
// the same. Otherwise, for about one result in a thousand of 49 taps, the floats are summed. t is at most 256, so that
// sums fit 16 bits, and scales are within 2^-64 and 2^64, so that nothing over- or underflows.

template <bool flips>
class IntegerSums {
 public:
  IntegerSums(const PoolRun<std::uint8_t>& run, std::size_t channel) noexcept : run_(run) {
    const std::size_t taps = run.taps[0] * run.taps[1] * run.taps[2];
    applies_ = taps >= kLeastTaps && taps <= kMostTaps && run.count >= 1.0f && run.count < 0x1p22f;
    if (!applies_) return;
    const float count = static_cast<float>(taps);
    for (std::size_t v = 0; v < 4; ++v) {
      const std::size_t first = channel + 16 * v;
      const __m512 scale_f32x16 = _mm512_loadu_ps(run.parameters.input_scale + first);
      const __m512 output_scale_f32x16 = _mm512_loadu_ps(run.parameters.output_scale + first);
      applies_ = applies_ && is_moderate(scale_f32x16) && is_moderate(output_scale_f32x16);
      ratio_f32x16_[v] = _mm512_div_ps(scale_f32x16, _mm512_mul_ps(_mm512_set1_ps(run.count), output_scale_f32x16));
      const __m512 error_f32x16 =
          _mm512_mul_ps(ratio_f32x16_[v], _mm512_set1_ps(0x1p-16f * count * (0.5f * count + 8.0f)));
      // A bit less than a half, for the roundings of this difference.
      limit_f32x16_[v] = _mm512_sub_ps(_mm512_set1_ps(0.49999f), error_f32x16);
      offset_f32x16_[v] =
          _mm512_mul_ps(_mm512_set1_ps(count), _mm512_loadu_ps(run.parameters.input_zero_point + first));
    }
  }

  bool applies() const noexcept { return applies_; }

  // rne(average) of each channel, at most 512; returns a bit for each vector in which the integers do not tell.
  unsigned rounded(const std::uint8_t* input, __m512i (&rounded_i32x16)[4]) const noexcept {
    __m512i sum_u16x32[2];
    sum(input, sum_u16x32);
    unsigned open = 0;
    for (std::size_t v = 0; v < 4; ++v) {
      const __m256i half_u16x16 =
          v % 2 == 0 ? _mm512_castsi512_si256(sum_u16x32[v / 2]) : _mm512_extracti64x4_epi64(sum_u16x32[v / 2], 1);
      const __m512 sum_f32x16 = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(half_u16x16));
      const __m512 average_f32x16 = _mm512_mul_ps(_mm512_sub_ps(sum_f32x16, offset_f32x16_[v]), ratio_f32x16_[v]);
      const __m512 nearest_f32x16 = _mm512_roundscale_ps(average_f32x16, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m512 distance_f32x16 = _mm512_abs_ps(_mm512_sub_ps(average_f32x16, nearest_f32x16));
      const __mmask16 told = _mm512_cmp_ps_mask(distance_f32x16, limit_f32x16_[v], _CMP_LT_OQ);
      open |= static_cast<unsigned>(told != 0xffff) << v;
      rounded_i32x16[v] = _mm512_cvtps_epi32(bounded(nearest_f32x16));
    }
    return open;
  }

 private:
  // Fewer cost less than a failure may.
  static constexpr std::size_t kLeastTaps = 12, kMostTaps = 256;

  static bool is_moderate(__m512 scale_f32x16) noexcept {
    const __mmask16 large = _mm512_cmp_ps_mask(scale_f32x16, _mm512_set1_ps(0x1p-64f), _CMP_GE_OQ);
    return _mm512_mask_cmp_ps_mask(large, scale_f32x16, _mm512_set1_ps(0x1p64f), _CMP_LE_OQ) == 0xffff;
  }

  // The sums of codes, channels in order.
  void sum(const std::uint8_t* input, __m512i (&sum_u16x32)[2]) const noexcept {
    const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512i low_bytes = _mm512_set1_epi16(0x00ff);
    __m512i even_u16x32 = _mm512_setzero_si512(), odd_u16x32 = even_u16x32;
    for (std::size_t i = 0; i < run_.taps[0]; ++i) {
      for (std::size_t j = 0; j < run_.taps[1]; ++j) {
        const std::uint8_t* tap = input + i * run_.tap_steps[0] + j * run_.tap_steps[1];
        for (std::size_t k = 0; k < run_.taps[2]; ++k, tap += run_.tap_steps[2]) {
          __m512i codes_u8x64 = _mm512_loadu_si512(tap);
          if constexpr (flips) codes_u8x64 = _mm512_xor_si512(codes_u8x64, flip_u8x64);
          even_u16x32 = _mm512_add_epi16(even_u16x32, _mm512_and_si512(codes_u8x64, low_bytes));
          odd_u16x32 = _mm512_add_epi16(odd_u16x32, _mm512_srli_epi16(codes_u8x64, 8));
        }
      }
    }
    // Within quarter q, low holds the channels 16 q to 16 q + 7, high the next eight.
    const __m512i low_u16x32 = _mm512_unpacklo_epi16(even_u16x32, odd_u16x32);
    const __m512i high_u16x32 = _mm512_unpackhi_epi16(even_u16x32, odd_u16x32);
    sum_u16x32[0] = _mm512_permutex2var_epi64(low_u16x32, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high_u16x32);
    sum_u16x32[1] = _mm512_permutex2var_epi64(low_u16x32, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high_u16x32);
  }

  const PoolRun<std::uint8_t>& run_;
  bool applies_;
  __m512 ratio_f32x16_[4], limit_f32x16_[4], offset_f32x16_[4];
};

// Whether to try integers: scales with many results half-way between two codes make them a waste. They pay for about
// one open vector in four.
struct IntegerTrials {
  int credit = 8;

  bool worth() const noexcept { return credit > 0; }
  void note_trial() noexcept { ++credit; }
  void note_open_vector() noexcept { --credit; }
};
