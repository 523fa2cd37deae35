// The second half of gemm.h for a tile of up to 32 columns, its sums in one or two vectors a row, the offsets already
// added.
// Included inside the unnamed namespace of a kernel file, after codes/avx512_vnni.inl.h and block_tiles.inl.h.

// The 16 sums of one row in one half of a tile, corrected for the filter's zero points unless these are null.
template <int half>
inline __m512i corrected(const std::int32_t* filter_zero_point, const std::int32_t* activation_sum, std::size_t row,
                         __m512i sum_i32x16) noexcept {
  if (filter_zero_point == nullptr) return sum_i32x16;
  const __m512i filter_i32x16 = _mm512_loadu_si512(filter_zero_point + 16 * half);
  const __m512i activation_i32x16 = _mm512_set1_epi32(activation_sum[row]);
  return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(filter_i32x16, activation_i32x16));
}

// Writes or adds one half of a row of sums, where a product ends in these.
template <int half>
inline void store_sums(const GemmBlock& block, const Tile& tile, std::size_t row, __m512i sum_i32x16) noexcept {
  const std::size_t columns = tile.columns > 16 * half ? tile.columns - 16 * half : 0;
  const __mmask16 mask = lane_mask(columns);
  std::int32_t* sums = tile.sums + row * block.output_row_stride + 16 * half;
  sum_i32x16 = corrected<half>(tile.filter_zero_point, tile.activation_sum, row, sum_i32x16);
  if (block.accumulates) sum_i32x16 = _mm512_add_epi32(sum_i32x16, _mm512_maskz_loadu_epi32(mask, sums));
  _mm512_mask_storeu_epi32(sums, mask, sum_i32x16);
}

// Whether no conversion of a tile's sums to codes overflows.
inline bool converts_within_range(const Tile& tile) noexcept {
  const std::size_t second = tile.columns > 16 ? 16 : 0;
  return (below_1(_mm512_loadu_ps(tile.multiplier)) & below_1(_mm512_loadu_ps(tile.multiplier + second))) == kAllLanes;
}

// Inlined everywhere: a call would move all sums out of their registers.
template <bool within_range>
class Requantizer {
 public:
  __attribute__((always_inline)) Requantizer(const GemmBlock& block, const Tile& tile) noexcept
      : multiplier_f32x16_{_mm512_loadu_ps(tile.multiplier),
                           _mm512_loadu_ps(tile.multiplier + (tile.columns > 16 ? 16 : 0))},
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(block.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(block.flip))),
        mask_(tile.columns >= 32 ? ~__mmask32{0} : (__mmask32{1} << tile.columns) - 1),
        filter_zero_point_(tile.filter_zero_point),
        activation_sum_(tile.activation_sum),
        output_(tile.output),
        output_row_stride_(block.output_row_stride) {}

  // Rows row and row + 1.
  __attribute__((always_inline)) void store_pair(std::size_t row, __m512i a0_i32x16, __m512i a1_i32x16,
                                                 __m512i b0_i32x16, __m512i b1_i32x16) const noexcept {
    const __m512i codes_u8x64 = codes(row, row + 1, a0_i32x16, a1_i32x16, b0_i32x16, b1_i32x16);
    store(row, _mm512_castsi512_si256(codes_u8x64));
    store(row + 1, _mm512_extracti64x4_epi64(codes_u8x64, 1));
  }

  __attribute__((always_inline)) void store_last(std::size_t row, __m512i a0_i32x16, __m512i a1_i32x16) const noexcept {
    store(row, _mm512_castsi512_si256(codes(row, row, a0_i32x16, a1_i32x16, a0_i32x16, a1_i32x16)));
  }

  // Up to four rows from `row` on, of 16 columns at most; those behind the last are any.
  __attribute__((always_inline)) void store_narrow(std::size_t row, std::size_t rows, __m512i a_i32x16,
                                                   __m512i b_i32x16, __m512i c_i32x16,
                                                   __m512i d_i32x16) const noexcept {
    const std::size_t last = rows - 1;
    const __m512i codes_u8x64 =
        _mm512_xor_si512(saturate_in_order(rounded<0>(row, a_i32x16), rounded<0>(row + (last < 1 ? last : 1), b_i32x16),
                                           rounded<0>(row + (last < 2 ? last : 2), c_i32x16),
                                           rounded<0>(row + (last < 3 ? last : 3), d_i32x16), zero_point_i16x32_),
                         flip_u8x64_);
    const auto store_row = [&](std::size_t i, __m128i codes_u8x16) {
      _mm_mask_storeu_epi8(output_ + (row + i) * output_row_stride_, static_cast<__mmask16>(mask_), codes_u8x16);
    };
    store_row(0, _mm512_castsi512_si128(codes_u8x64));
    if (rows > 1) store_row(1, _mm512_extracti32x4_epi32(codes_u8x64, 1));
    if (rows > 2) store_row(2, _mm512_extracti32x4_epi32(codes_u8x64, 2));
    if (rows > 3) store_row(3, _mm512_extracti32x4_epi32(codes_u8x64, 3));
  }

 private:
  __attribute__((always_inline)) __m512i codes(std::size_t a_row, std::size_t b_row, __m512i a0_i32x16,
                                               __m512i a1_i32x16, __m512i b0_i32x16, __m512i b1_i32x16) const noexcept {
    return _mm512_xor_si512(
        saturate_in_order(rounded<0>(a_row, a0_i32x16), rounded<1>(a_row, a1_i32x16), rounded<0>(b_row, b0_i32x16),
                          rounded<1>(b_row, b1_i32x16), zero_point_i16x32_),
        flip_u8x64_);
  }

  template <int half>
  __attribute__((always_inline)) __m512i rounded(std::size_t row, __m512i sum_i32x16) const noexcept {
    sum_i32x16 = corrected<half>(filter_zero_point_, activation_sum_, row, sum_i32x16);
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16), multiplier_f32x16_[half]);
    return _mm512_cvtps_epi32(within_range ? scaled_f32x16 : bounded(scaled_f32x16));
  }

  __attribute__((always_inline)) void store(std::size_t row, __m256i codes_u8x32) const noexcept {
    _mm256_mask_storeu_epi8(output_ + row * output_row_stride_, mask_, codes_u8x32);
  }

  __m512 multiplier_f32x16_[2];
  __m512i zero_point_i16x32_, flip_u8x64_;
  __mmask32 mask_;
  const std::int32_t *filter_zero_point_, *activation_sum_;
  std::uint8_t* output_;
  std::size_t output_row_stride_;
};
