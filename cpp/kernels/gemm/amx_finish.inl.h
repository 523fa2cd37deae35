// How the AMX kernel makes codes of sums that have left the tiles.
// Included inside the unnamed namespace of a kernel file, after amx_cut.inl.h and requantize_avx512_vnni.inl.h.
//
// While tiles are multiplied, the vector unit's second port takes no multiplications and conversions. So what can go to
// either port is best: rounding is an addition of floats, and zero points are added to 32-bit integers. Loops are short
// and plain: what is made between the tiles' instructions one by one takes longer in all, as a processor looks some
// hundred operations ahead.

// 1.5 * 2^23: its sum with a float of up to 2^22 in magnitude is that float rounded half to even, as a difference of
// bits. Floats beyond, up to 2^23, make differences beyond as well, which saturate.
constexpr float kRounder = 12582912.0F, kMostRounded = 8000000.0F;
constexpr std::int32_t kRounderBits = 0x4b400000;

// The largest magnitude of a block's activation sums; 0 without zero points.
std::uint32_t largest_activation_sum(const GemmBlock& block) noexcept {
  if (block.filter_zero_point == nullptr) return 0;
  __m512i largest_u32x16 = _mm512_setzero_si512();
  const std::size_t count = block.runs * block.m;
  for (std::size_t row = 0; row < count; row += 16) {
    const __m512i sum_i32x16 = _mm512_maskz_loadu_epi32(lane_mask(count - row), block.activation_sum + row);
    largest_u32x16 = _mm512_max_epu32(largest_u32x16, _mm512_abs_epi32(sum_i32x16));
  }
  return _mm512_reduce_max_epu32(largest_u32x16);
}

// Whether all scaled sums of a block are small enough to be rounded by an addition, and activation sums to be factored.
// A sum of k terms is within 255 * 128 * k of its offset, and what a filter's zero points take off within 128 times the
// activation sum. Beyond 2^31 sums wrap, which makes them smaller. NaN is not below.
bool rounds_by_adding(const GemmBlock& block) noexcept {
  if (block.sums != nullptr) return false;
  const std::uint32_t largest = largest_activation_sum(block);
  if (largest >= kLongestFactoredSum) return false;  // it may be negative
  const __m512 most_f32x16 =
      _mm512_set1_ps(32640.0F * static_cast<float>(terms_of(block)) + 128.0F * static_cast<float>(largest));
  __mmask16 beyond = 0;
  for (std::size_t column = 0; column < block.n; column += kNr) {
    const __m512i offset_i32x16 = _mm512_loadu_si512(block.offset + column);
    const __m512 multiplier_f32x16 = _mm512_abs_ps(_mm512_loadu_ps(block.multiplier + column));
    const __m512 sum_f32x16 = _mm512_add_ps(_mm512_abs_ps(_mm512_cvtepi32_ps(offset_i32x16)), most_f32x16);
    beyond |= _mm512_mask_cmp_ps_mask(lane_mask(block.n - column), _mm512_mul_ps(sum_f32x16, multiplier_f32x16),
                                      _mm512_set1_ps(kMostRounded), _CMP_NLT_UQ);
  }
  return beyond == 0;
}

// Neighbouring rows of sums that are of one run: which they are, and where they go.
struct Stretch {
  std::size_t sums;        // elements from the first row of an area's sums
  std::size_t place;       // of its first code or sum in the output, from a column on
  std::size_t activation;  // of its activation sums
  std::size_t rows;
};

// The sums of a group of rows by one or two panels of b, kSumColumns from row to row.
struct Finished {
  std::size_t panel, columns;
  const std::int32_t* sums;
  const Stretch* stretches;
  std::size_t count;
};

// Four vectors of 16 integers as bytes in their order. Packs work within 128 bits, so that dwords are put in order.
template <bool is_signed>
__attribute__((always_inline)) inline __m512i saturated(const __m512i* i32x16) noexcept {
  const __m512i low_i16x32 = _mm512_packs_epi32(i32x16[0], i32x16[1]);
  const __m512i high_i16x32 = _mm512_packs_epi32(i32x16[2], i32x16[3]);
  return in_order(is_signed ? _mm512_packs_epi16(low_i16x32, high_i16x32)
                            : _mm512_packus_epi16(low_i16x32, high_i16x32));
}

// The activation sums of a stretch as vpdpwssd takes them, a vector of rows at a time.
inline void factor_activation_sums(const GemmBlock& block, const Stretch& stretch, std::int32_t* factors) noexcept {
  for (std::size_t row = 0; row < stretch.rows; row += kTileRows) {
    const __mmask16 of_rows = lane_mask(stretch.rows - row);
    const std::int32_t* activation_sums = block.activation_sum + stretch.activation + row;
    const __m512i activation_i32x16 = _mm512_maskz_loadu_epi32(of_rows, activation_sums);
    _mm512_store_si512(factors + row, factors_of_negative(activation_i32x16));
  }
}

// The codes of two rows of 32 columns (`is_whole`) or fewer, or of four of up to 16, of which a mask tells how many.
template <std::size_t rows, bool is_whole>
__attribute__((always_inline)) inline void store_codes(std::uint8_t* output, std::size_t stride, __mmask32 mask,
                                                       __m512i codes_u8x64) noexcept {
  if constexpr (is_whole) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), _mm512_castsi512_si256(codes_u8x64));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + stride), _mm512_extracti64x4_epi64(codes_u8x64, 1));
  } else if constexpr (rows == 2) {
    _mm256_mask_storeu_epi8(output, mask, _mm512_castsi512_si256(codes_u8x64));
    _mm256_mask_storeu_epi8(output + stride, mask, _mm512_extracti64x4_epi64(codes_u8x64, 1));
  } else {
    const auto of_row = static_cast<__mmask16>(mask);
    _mm_mask_storeu_epi8(output, of_row, _mm512_castsi512_si128(codes_u8x64));
    _mm_mask_storeu_epi8(output + stride, of_row, _mm512_extracti32x4_epi32(codes_u8x64, 1));
    _mm_mask_storeu_epi8(output + 2 * stride, of_row, _mm512_extracti32x4_epi32(codes_u8x64, 2));
    _mm_mask_storeu_epi8(output + 3 * stride, of_row, _mm512_extracti32x4_epi32(codes_u8x64, 3));
  }
}

// Two rows of 32 columns (`is_whole`) or fewer, or four of up to 16 become 64 codes.
template <std::size_t rows_at_once, bool is_whole, bool has_zero_points, bool is_signed>
void finish_by_adding(const GemmBlock& block, const Finished& finished) noexcept {
  constexpr std::size_t kPanels = 4 / rows_at_once;
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << finished.columns) - 1);
  const std::int32_t zero_point = static_cast<std::int32_t>(block.output_zero_point) - (is_signed ? 128 : 0);
  const __m512i unbias_i32x16 = _mm512_set1_epi32(kRounderBits - zero_point);
  const __m512 rounder_f32x16 = _mm512_set1_ps(kRounder);
  __m512 multiplier_f32x16[kPanels];
  [[maybe_unused]] __m512i factors_i16x32[kPanels];
  alignas(64) [[maybe_unused]] std::int32_t activation_factors[kMostParts * kTileRows];
  for (std::size_t panel = 0; panel < kPanels; ++panel) {
    const std::size_t column = finished.panel + kNr * panel;
    multiplier_f32x16[panel] = _mm512_loadu_ps(block.multiplier + column);
    if constexpr (has_zero_points) factors_i16x32[panel] = filter_factors(block.filter_zero_point + column);
  }
  // The codes of some rows, of which so many are there: in place of others the first one is read again.
  const auto codes_of = [&](const std::int32_t* sums, std::size_t row,
                            std::size_t rows) __attribute__((always_inline)) {
    __m512i sum_i32x16[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t panel = i % kPanels, ahead = i / kPanels < rows ? i / kPanels : 0;
      sum_i32x16[i] = _mm512_load_si512(sums + ahead * kSumColumns + kNr * panel);
      if constexpr (has_zero_points) {
        const __m512i activation_i16x32 = _mm512_set1_epi32(activation_factors[row + ahead]);
        sum_i32x16[i] = _mm512_dpwssd_epi32(sum_i32x16[i], factors_i16x32[panel], activation_i16x32);
      }
      const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16[i]), multiplier_f32x16[panel]);
      const __m512 rounded_f32x16 = _mm512_add_ps(scaled_f32x16, rounder_f32x16);
      sum_i32x16[i] = _mm512_sub_epi32(_mm512_castps_si512(rounded_f32x16), unbias_i32x16);
    }
    return saturated<is_signed>(sum_i32x16);
  };
  const std::size_t stride = block.output_row_stride;
  for (const Stretch* stretch = finished.stretches; stretch != finished.stretches + finished.count; ++stretch) {
    if constexpr (has_zero_points) factor_activation_sums(block, *stretch, activation_factors);
    const std::int32_t* sums = finished.sums + stretch->sums;
    std::uint8_t* output = block.output + stretch->place + finished.panel;
    const std::size_t rows = stretch->rows;
    std::size_t row = 0;
    for (; row + rows_at_once <= rows; row += rows_at_once) {
      store_codes<rows_at_once, is_whole>(output, stride, mask, codes_of(sums, row, rows_at_once));
      sums += rows_at_once * kSumColumns;
      output += rows_at_once * stride;
    }
    for (; row < rows; ++row, sums += kSumColumns, output += stride) {
      _mm256_mask_storeu_epi8(output, mask, _mm512_castsi512_si256(codes_of(sums, row, 1)));
    }
  }
}

// What cannot be finished so: int32 results, large multipliers, very long activation sums.
void finish_otherwise(const GemmBlock& block, const Finished& finished) noexcept {
  const bool has_second = finished.columns > kNr;
  const auto finish_row = [&](const std::int32_t* sums, std::size_t place, std::size_t activation) {
    const auto sum = [&](std::size_t column) {
      const __m512i sum_i32x16 = _mm512_load_si512(sums + column);
      if (block.filter_zero_point == nullptr) return sum_i32x16;
      const __m512i zero_point_i32x16 = _mm512_loadu_si512(block.filter_zero_point + finished.panel + column);
      const __m512i activation_i32x16 = _mm512_set1_epi32(block.activation_sum[activation]);
      return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(zero_point_i32x16, activation_i32x16));
    };
    const __m512i first_i32x16 = sum(0), second_i32x16 = sum(has_second ? kNr : 0);
    if (block.sums != nullptr) {
      store_sums<0>(block, finished.columns, block.sums + place, first_i32x16);
      if (has_second) store_sums<1>(block, finished.columns, block.sums + place, second_i32x16);
    } else {
      Tile tile = tile_of(block, kNr, finished.panel, 0, 0, 0);
      tile.columns = finished.columns;
      Requantizer(block, tile).store_single<false>(block.output + place, first_i32x16, second_i32x16);
    }
  };
  for (const Stretch* stretch = finished.stretches; stretch != finished.stretches + finished.count; ++stretch) {
    for (std::size_t row = 0; row < stretch->rows; ++row) {
      finish_row(finished.sums + stretch->sums + row * kSumColumns,
                 stretch->place + row * block.output_row_stride + finished.panel, stretch->activation + row);
    }
  }
}

using FinishFunction = void (*)(const GemmBlock& block, const Finished& finished) noexcept;

// How the areas of a block are finished, by their columns.
class Finish {
 public:
  explicit Finish(const GemmBlock& block) noexcept {
    if (!rounds_by_adding(block)) return;
    if (block.filter_zero_point == nullptr) {
      block.flip == 0 ? choose<false, false>() : choose<false, true>();
    } else {
      block.flip == 0 ? choose<true, false>() : choose<true, true>();
    }
  }

  FinishFunction of_columns(std::size_t columns) const noexcept {
    return columns == kSumColumns ? of_whole_ : columns > kNr ? of_two_panels_ : of_one_panel_;
  }

 private:
  template <bool has_zero_points, bool is_signed>
  void choose() noexcept {
    of_whole_ = finish_by_adding<2, true, has_zero_points, is_signed>;
    of_two_panels_ = finish_by_adding<2, false, has_zero_points, is_signed>;
    of_one_panel_ = finish_by_adding<4, false, has_zero_points, is_signed>;
  }

  FinishFunction of_whole_ = finish_otherwise, of_two_panels_ = finish_otherwise, of_one_panel_ = finish_otherwise;
};
