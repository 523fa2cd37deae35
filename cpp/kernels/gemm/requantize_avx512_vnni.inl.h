// The second half of gemm.h for a tile of up to 32 columns, its sums in one or two vectors a row, the offsets already
// added: the filter's zero points come off first, then sums become codes.
// Included inside the unnamed namespace of a kernel file, after codes/avx512_vnni.inl.h and block_tiles.inl.h.

// filter_zero_point[column] * activation_sum[row], to be taken off a tile's sums in one vpdpwssd a vector, where
// vpmulld alone is two operations. A zero point z of 8 bits is the pair (z, 256 z) of 16-bit factors, and -s the pair
// (-s mod 256, -s div 256), as long as s is within -2^23 < s <= 2^23.
inline __m512i filter_factors(__m512i zero_point_i32x16) noexcept {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, zero_point_i32x16, _mm512_slli_epi32(zero_point_i32x16, 24));
}
constexpr std::uint32_t kLongestFactoredSum = 1 << 23;
inline __m512i factors_of_negative(__m512i sum_u32x16) noexcept {
  const __m512i negative_i32x16 = _mm512_sub_epi32(_mm512_setzero_si512(), sum_u32x16);
  const __m512i low_i32x16 = _mm512_and_si512(negative_i32x16, _mm512_set1_epi32(255));
  return _mm512_mask_blend_epi16(0xaaaaaaaa, low_i32x16, _mm512_slli_epi32(negative_i32x16, 8));
}

// The terms of a tile, made before its products, while there are registers for it. Longer sums are taken off in parts.
template <std::size_t most_rows>
class ZeroPointTerms {
 public:
  explicit ZeroPointTerms(const Tile& tile) noexcept : filter_zero_point_(tile.filter_zero_point) {
    if (filter_zero_point_ == nullptr) return;
    for (std::size_t row = 0; row < kRows; row += 16) {
      const __mmask16 mask = lane_mask(tile.rows > row ? tile.rows - row : 0);
      _mm512_store_si512(left_ + row, _mm512_maskz_loadu_epi32(mask, tile.activation_sum + row));
    }
    take_part();
  }

  bool empty() const noexcept { return filter_zero_point_ == nullptr; }

  // each_row is called with what takes the terms off 16 sums, given a row and a half of the columns.
  template <std::size_t halves, class EachRow>
  __attribute__((always_inline)) void subtract(EachRow each_row) noexcept {
    __m512i filter_i16x32[halves];
    for (std::size_t half = 0; half < halves; ++half) {
      filter_i16x32[half] = filter_factors(_mm512_loadu_si512(filter_zero_point_ + 16 * half));
    }
    for (;;) {
      each_row([&](std::size_t row, std::size_t half, __m512i sum_i32x16) __attribute__((always_inline)) {
        return _mm512_dpwssd_epi32(sum_i32x16, filter_i16x32[half], _mm512_set1_epi32(pairs_[row]));
      });
      if (!has_more_) return;
      take_part();
    }
  }

 private:
  static constexpr std::size_t kRows = (most_rows + 15) / 16 * 16;

  __attribute__((noinline)) void take_part() noexcept {
    has_more_ = false;
    for (std::size_t row = 0; row < kRows; row += 16) {
      const __m512i left_u32x16 = _mm512_load_si512(left_ + row);
      const __m512i part_u32x16 = _mm512_min_epu32(left_u32x16, _mm512_set1_epi32(kLongestFactoredSum));
      _mm512_store_si512(pairs_ + row, factors_of_negative(part_u32x16));
      _mm512_store_si512(left_ + row, _mm512_sub_epi32(left_u32x16, part_u32x16));
      has_more_ |= _mm512_cmpneq_epi32_mask(left_u32x16, part_u32x16) != 0;
    }
  }

  const std::int32_t* filter_zero_point_;
  bool has_more_ = false;
  alignas(64) std::int32_t pairs_[kRows];
  alignas(64) std::uint32_t left_[kRows];
};

// Writes or adds one half of a row of sums, where a product ends in these.
template <int half>
inline void store_sums(const GemmBlock& block, std::size_t columns, std::int32_t* sums, __m512i sum_i32x16) noexcept {
  const __mmask16 mask = lane_mask(columns > 16 * half ? columns - 16 * half : 0);
  sums += 16 * half;
  if (block.accumulates) sum_i32x16 = _mm512_add_epi32(sum_i32x16, _mm512_maskz_loadu_epi32(mask, sums));
  _mm512_mask_storeu_epi32(sums, mask, sum_i32x16);
}

// Whether no conversion of a tile's sums to codes overflows.
inline bool converts_within_range(const Tile& tile) noexcept {
  const std::size_t second = tile.columns > 16 ? 16 : 0;
  return (below_1(_mm512_loadu_ps(tile.multiplier)) & below_1(_mm512_loadu_ps(tile.multiplier + second))) == kAllLanes;
}

// Makes codes of the sums of a tile's columns, in whichever rows. Where no conversion overflows, none is bounded.
// Inlined everywhere: a call would move all sums out of their registers.
class Requantizer {
 public:
  Requantizer() noexcept = default;
  __attribute__((always_inline)) Requantizer(const GemmBlock& block, const Tile& tile) noexcept
      : first_multiplier_f32x16_(_mm512_loadu_ps(tile.multiplier)),
        second_multiplier_f32x16_(_mm512_loadu_ps(tile.multiplier + (tile.columns > 16 ? 16 : 0))),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(block.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(block.flip))),
        mask_(tile.columns >= 32 ? ~__mmask32{0} : (__mmask32{1} << tile.columns) - 1) {}

  // Two rows of 32 columns at most.
  template <bool within_range>
  __attribute__((always_inline)) void store_pair(std::uint8_t* first, std::uint8_t* second, __m512i a0_i32x16,
                                                 __m512i a1_i32x16, __m512i b0_i32x16,
                                                 __m512i b1_i32x16) const noexcept {
    const __m512i codes_u8x64 =
        codes<within_range>(second_multiplier_f32x16_, a0_i32x16, a1_i32x16, b0_i32x16, b1_i32x16);
    _mm256_mask_storeu_epi8(first, mask_, _mm512_castsi512_si256(codes_u8x64));
    _mm256_mask_storeu_epi8(second, mask_, _mm512_extracti64x4_epi64(codes_u8x64, 1));
  }

  template <bool within_range>
  __attribute__((always_inline)) void store_single(std::uint8_t* row, __m512i a0_i32x16,
                                                   __m512i a1_i32x16) const noexcept {
    const __m512i codes_u8x64 =
        codes<within_range>(second_multiplier_f32x16_, a0_i32x16, a1_i32x16, a0_i32x16, a1_i32x16);
    _mm256_mask_storeu_epi8(row, mask_, _mm512_castsi512_si256(codes_u8x64));
  }

  // Up to four rows of 16 columns at most, of which output(i) says where they go; those behind the last are any.
  template <bool within_range, class Output>
  __attribute__((always_inline)) void store_narrow(std::size_t rows, Output output, __m512i a_i32x16, __m512i b_i32x16,
                                                   __m512i c_i32x16, __m512i d_i32x16) const noexcept {
    const __m512i codes_u8x64 = codes<within_range>(first_multiplier_f32x16_, a_i32x16, b_i32x16, c_i32x16, d_i32x16);
    const auto mask = static_cast<__mmask16>(mask_);
    _mm_mask_storeu_epi8(output(0), mask, _mm512_castsi512_si128(codes_u8x64));
    if (rows > 1) _mm_mask_storeu_epi8(output(1), mask, _mm512_extracti32x4_epi32(codes_u8x64, 1));
    if (rows > 2) _mm_mask_storeu_epi8(output(2), mask, _mm512_extracti32x4_epi32(codes_u8x64, 2));
    if (rows > 3) _mm_mask_storeu_epi8(output(3), mask, _mm512_extracti32x4_epi32(codes_u8x64, 3));
  }

 private:
  // Of the first columns, the second or the first again, the first, and the second or the first again.
  template <bool within_range>
  __attribute__((always_inline)) __m512i codes(__m512 other_multiplier_f32x16, __m512i a_i32x16, __m512i b_i32x16,
                                               __m512i c_i32x16, __m512i d_i32x16) const noexcept {
    return _mm512_xor_si512(
        saturate_in_order(rounded<within_range>(a_i32x16, first_multiplier_f32x16_),
                          rounded<within_range>(b_i32x16, other_multiplier_f32x16),
                          rounded<within_range>(c_i32x16, first_multiplier_f32x16_),
                          rounded<within_range>(d_i32x16, other_multiplier_f32x16), zero_point_i16x32_),
        flip_u8x64_);
  }

  template <bool within_range>
  __attribute__((always_inline)) static __m512i rounded(__m512i sum_i32x16, __m512 multiplier_f32x16) noexcept {
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16), multiplier_f32x16);
    return _mm512_cvtps_epi32(within_range ? scaled_f32x16 : bounded(scaled_f32x16));
  }

  __m512 first_multiplier_f32x16_ = {}, second_multiplier_f32x16_ = {};
  __m512i zero_point_i16x32_ = {}, flip_u8x64_ = {};
  __mmask32 mask_ = 0;
};
