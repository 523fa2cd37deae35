// The second half of gemm.h for a tile of 16 columns, its sums in two vectors a row, or of up to 8 columns in one, the
// offsets already added.
// Included inside the unnamed namespace of a kernel file, after codes/avx2.inl.h and block_tiles.inl.h.

inline __m256i load(const std::int32_t* values) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}

// Corrects the sums of a tile's rows for the filter's zero points.
template <std::size_t rows, std::size_t halves>
inline __attribute__((always_inline)) void correct(const std::int32_t* filter_zero_point,
                                                   const std::int32_t* activation_sum,
                                                   __m256i (&sum_i32x8)[rows][halves]) noexcept {
#pragma GCC unroll 12
  for (std::size_t row = 0; row < rows; ++row) {
    const __m256i activation_i32x8 = _mm256_set1_epi32(activation_sum[row]);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i filter_i32x8 = load(filter_zero_point + 8 * half);
      sum_i32x8[row][half] = _mm256_sub_epi32(sum_i32x8[row][half], _mm256_mullo_epi32(filter_i32x8, activation_i32x8));
    }
  }
}

// Writes or adds one half of a row of sums, where a product ends in these.
template <int half>
inline __attribute__((always_inline)) void store_sums(const GemmBlock& block, std::size_t columns_of_tile,
                                                      std::int32_t* sums, __m256i sum_i32x8) noexcept {
  const std::size_t columns = columns_of_tile > 8 * half ? columns_of_tile - 8 * half : 0;
  sums += 8 * half;
  if (columns >= 8) {  // a store under a mask takes several times as long
    if (block.accumulates) sum_i32x8 = _mm256_add_epi32(sum_i32x8, load(sums));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), sum_i32x8);
    return;
  }
  const __m256i mask_i32x8 = lane_mask(columns);
  if (block.accumulates) sum_i32x8 = _mm256_add_epi32(sum_i32x8, _mm256_maskload_epi32(sums, mask_i32x8));
  _mm256_maskstore_epi32(sums, mask_i32x8, sum_i32x8);
}

class Requantizer {
 public:
  Requantizer(const GemmBlock& block, const Tile& tile) noexcept
      : multiplier_f32x8_{multipliers(tile, 0), multipliers(tile, 1)},
        zero_point_i16x16_(_mm256_set1_epi16(static_cast<short>(block.output_zero_point))),
        flip_u8x32_(_mm256_set1_epi8(static_cast<char>(block.flip))),
        columns_(tile.columns),
        output_(tile.output),
        output_row_stride_(block.output_row_stride) {}

  // Goes on to rows below.
  void next_rows(std::size_t rows) noexcept { output_ += rows * output_row_stride_; }

  // Whether scaled sums may exceed the range of integers.
  bool needs_bounds() const noexcept {
    return !(all_below_1(multiplier_f32x8_[0]) && all_below_1(multiplier_f32x8_[1]));
  }

  // Rows row and row + 1.
  template <bool bounds>
  __attribute__((always_inline)) void store_pair(std::size_t row, __m256i a0_i32x8, __m256i a1_i32x8, __m256i b0_i32x8,
                                                 __m256i b1_i32x8) const noexcept {
    const __m256i codes_u8x32 = codes<bounds>(a0_i32x8, a1_i32x8, b0_i32x8, b1_i32x8);
    store(row, _mm256_castsi256_si128(codes_u8x32));
    store(row + 1, _mm256_extracti128_si256(codes_u8x32, 1));
  }

  template <bool bounds>
  __attribute__((always_inline)) void store_last(std::size_t row, __m256i a0_i32x8, __m256i a1_i32x8) const noexcept {
    store(row, _mm256_castsi256_si128(codes<bounds>(a0_i32x8, a1_i32x8, a0_i32x8, a1_i32x8)));
  }

  // The next up to four rows, of the first half alone.
  template <bool bounds, std::size_t rows>
  __attribute__((always_inline)) void store_halves(std::size_t row, const __m256i (*sum_i32x8)[1]) const noexcept {
    const __m256i a_i16x16 = pair_of_halves<bounds, rows>(sum_i32x8);
    __m256i b_i16x16 = a_i16x16;
    if constexpr (rows > 2) b_i16x16 = pair_of_halves<bounds, rows - 2>(sum_i32x8 + 2);
    const __m256i codes_u8x32 = _mm256_xor_si256(codes_in_order(a_i16x16, b_i16x16, zero_point_i16x16_), flip_u8x32_);
    const __m128i a_u8x16 = _mm256_castsi256_si128(codes_u8x32), b_u8x16 = _mm256_extracti128_si256(codes_u8x32, 1);
    std::uint8_t* output = output_ + row * output_row_stride_;
    store_eight(output, a_u8x16);
    if constexpr (rows > 1) store_eight(output + output_row_stride_, _mm_unpackhi_epi64(a_u8x16, a_u8x16));
    if constexpr (rows > 2) store_eight(output + 2 * output_row_stride_, b_u8x16);
    if constexpr (rows > 3) store_eight(output + 3 * output_row_stride_, _mm_unpackhi_epi64(b_u8x16, b_u8x16));
  }

 private:
  template <bool bounds>
  __attribute__((always_inline)) __m256i codes(__m256i a0_i32x8, __m256i a1_i32x8, __m256i b0_i32x8,
                                               __m256i b1_i32x8) const noexcept {
    const __m256i a_i16x16 = _mm256_packs_epi32(rounded<bounds, 0>(a0_i32x8), rounded<bounds, 1>(a1_i32x8));
    const __m256i b_i16x16 = _mm256_packs_epi32(rounded<bounds, 0>(b0_i32x8), rounded<bounds, 1>(b1_i32x8));
    return _mm256_xor_si256(codes_in_order(a_i16x16, b_i16x16, zero_point_i16x16_), flip_u8x32_);
  }

  // The first two rows, or one twice.
  template <bool bounds, std::size_t rows>
  __attribute__((always_inline)) __m256i pair_of_halves(const __m256i (*sum_i32x8)[1]) const noexcept {
    constexpr std::size_t kSecond = rows > 1 ? 1 : 0;
    return _mm256_packs_epi32(rounded<bounds, 0>(sum_i32x8[0][0]), rounded<bounds, 0>(sum_i32x8[kSecond][0]));
  }

  static __m256 multipliers(const Tile& tile, std::size_t half) noexcept {
    return tile.multiplier == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(tile.multiplier + 8 * half);
  }

  template <bool bounds, int half>
  __m256i rounded(__m256i sum_i32x8) const noexcept {
    const __m256 scaled_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_i32x8), multiplier_f32x8_[half]);
    return _mm256_cvtps_epi32(bounds ? bounded(scaled_f32x8) : scaled_f32x8);
  }

  void store(std::size_t row, __m128i codes_u8x16) const noexcept {
    std::uint8_t* output = output_ + row * output_row_stride_;
    if (columns_ == 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output), codes_u8x16);
    } else {
      store_first(output, columns_, codes_u8x16);
    }
  }

  void store_eight(std::uint8_t* output, __m128i codes_u8x16) const noexcept {
    if (columns_ == 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(output), codes_u8x16);
    } else {
      store_first(output, columns_, codes_u8x16);
    }
  }

  __m256 multiplier_f32x8_[2];
  __m256i zero_point_i16x16_, flip_u8x32_;
  std::size_t columns_;
  std::uint8_t* output_;
  std::size_t output_row_stride_;
};

// The rows of a tile as codes, two by two.
template <bool bounds, std::size_t rows>
inline __attribute__((always_inline)) void store_codes(const Requantizer& requantizer,
                                                       const __m256i (&sum_i32x8)[rows][2]) noexcept {
  for (std::size_t row = 0; row + 2 <= rows; row += 2) {
    requantizer.store_pair<bounds>(row, sum_i32x8[row][0], sum_i32x8[row][1], sum_i32x8[row + 1][0],
                                   sum_i32x8[row + 1][1]);
  }
  if constexpr (rows % 2 != 0) {
    requantizer.store_last<bounds>(rows - 1, sum_i32x8[rows - 1][0], sum_i32x8[rows - 1][1]);
  }
}

// The same of half a tile, four by four.
template <bool bounds, std::size_t rows>
inline __attribute__((always_inline)) void store_codes(const Requantizer& requantizer,
                                                       const __m256i (&sum_i32x8)[rows][1]) noexcept {
  constexpr std::size_t kWhole = rows / 4 * 4;
  for (std::size_t row = 0; row < kWhole; row += 4) requantizer.store_halves<bounds, 4>(row, sum_i32x8 + row);
  if constexpr (rows > kWhole) requantizer.store_halves<bounds, rows - kWhole>(kWhole, sum_i32x8 + kWhole);
}

// Tiles one below the other, as sums or codes.
class RowStorage {
 public:
  RowStorage(const GemmBlock& block, const Tile& tile) noexcept
      : block_(block),
        columns_(tile.columns),
        filter_zero_point_(tile.filter_zero_point),
        activation_sum_(tile.activation_sum),
        sums_(tile.sums),
        requantizer_(block, tile),
        needs_bounds_(requantizer_.needs_bounds()) {}

  // The next rows, which come without the share of the filter's zero points.
  template <std::size_t rows, std::size_t halves>
  __attribute__((always_inline)) void store(__m256i (&sum_i32x8)[rows][halves]) noexcept {
    if (filter_zero_point_ != nullptr) {
      correct(filter_zero_point_, activation_sum_, sum_i32x8);
      activation_sum_ += rows;
    }
    if (sums_ == nullptr) {
      needs_bounds_ ? store_codes<true>(requantizer_, sum_i32x8) : store_codes<false>(requantizer_, sum_i32x8);
      requantizer_.next_rows(rows);
      return;
    }
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row, sums_ += block_.output_row_stride) {
      store_sums<0>(block_, columns_, sums_, sum_i32x8[row][0]);
      if constexpr (halves > 1) store_sums<1>(block_, columns_, sums_, sum_i32x8[row][1]);
    }
  }

 private:
  const GemmBlock& block_;
  std::size_t columns_;
  const std::int32_t *filter_zero_point_, *activation_sum_;  // the former may be null
  std::int32_t* sums_;                                       // null where codes are written
  Requantizer requantizer_;
  bool needs_bounds_;
};
