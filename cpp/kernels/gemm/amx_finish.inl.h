// How the AMX kernel makes codes of sums that have left the tiles.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles, terms_of, amx_areas.inl.h
// and requantize_avx512_vnni.inl.h.
//
// While tiles are multiplied, the vector unit's second port takes no multiplications and conversions. So what can go to
// either port is best: rounding is an addition of floats, and zero points are added to 32-bit integers. They cost least
// among the tiles' instructions: a processor looks only some of these ahead, and what stands behind waits.

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

// Four vectors of 16 integers as bytes in their order. Packs work within 128 bits, so that dwords are put in order.
template <bool is_signed>
__attribute__((always_inline)) inline __m512i saturated(__m512i a_i32x16, __m512i b_i32x16, __m512i c_i32x16,
                                                        __m512i d_i32x16) noexcept {
  const __m512i low_i16x32 = _mm512_packs_epi32(a_i32x16, b_i32x16);
  const __m512i high_i16x32 = _mm512_packs_epi32(c_i32x16, d_i32x16);
  return in_order(is_signed ? _mm512_packs_epi16(low_i16x32, high_i16x32)
                            : _mm512_packus_epi16(low_i16x32, high_i16x32));
}

// Keeps its place among the instructions of tiles, which compilers take for volatile: what is made of it is not
// made before.
__attribute__((always_inline)) inline __m512i load_here(const std::int32_t* sums) noexcept {
#if defined(__AVX512F__)  // in an emulation it is not
  __m512i sum_i32x16;
  __asm__ volatile("vmovdqa64 %1, %0" : "=v"(sum_i32x16) : "m"(*reinterpret_cast<const __m512i*>(sums)));
  return sum_i32x16;
#else
  return _mm512_load_si512(sums);
#endif
}

// What makes codes of sums in the columns of one panel, or of two. Its members are no arrays, which compilers would
// keep in memory, and read again after each tile that is stored.
template <std::size_t panels, bool has_zero_points, bool is_signed>
class CodesByAdding {
 public:
  __attribute__((always_inline)) CodesByAdding(const GemmBlock& block, std::size_t panel) noexcept {
    const std::int32_t zero_point = static_cast<std::int32_t>(block.output_zero_point) - (is_signed ? 128 : 0);
    unbias_i32x16_ = _mm512_set1_epi32(kRounderBits - zero_point);
    const std::size_t second = panel + (panels - 1) * kNr;
    first_multiplier_f32x16_ = _mm512_loadu_ps(block.multiplier + panel);
    second_multiplier_f32x16_ = _mm512_loadu_ps(block.multiplier + second);
    if constexpr (has_zero_points) {
      first_factors_i16x32_ = filter_factors(block.filter_zero_point + panel);
      second_factors_i16x32_ = filter_factors(block.filter_zero_point + second);
    }
  }

  // Of four vectors: of the first row's panels, of the second row's, and so on.
  __attribute__((always_inline)) __m512i codes(const std::int32_t* activation, __m512i a_i32x16, __m512i b_i32x16,
                                               __m512i c_i32x16, __m512i d_i32x16) const noexcept {
    return saturated<is_signed>(rounded<0>(activation, a_i32x16), rounded<1>(activation, b_i32x16),
                                rounded<2>(activation, c_i32x16), rounded<3>(activation, d_i32x16));
  }

 private:
  template <std::size_t number>
  __attribute__((always_inline)) __m512i rounded(const std::int32_t* activation, __m512i sum_i32x16) const noexcept {
    constexpr bool is_second = number % panels == 1;
    if constexpr (has_zero_points) {
      const __m512i activation_i16x32 = _mm512_set1_epi32(activation[number / panels]);
      sum_i32x16 = _mm512_dpwssd_epi32(sum_i32x16, is_second ? second_factors_i16x32_ : first_factors_i16x32_,
                                       activation_i16x32);
    }
    const __m512 scaled_f32x16 =
        _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16), is_second ? second_multiplier_f32x16_ : first_multiplier_f32x16_);
    const __m512 rounded_f32x16 = _mm512_add_ps(scaled_f32x16, rounder_f32x16_);
    return _mm512_sub_epi32(_mm512_castps_si512(rounded_f32x16), unbias_i32x16_);
  }

  __m512 rounder_f32x16_ = _mm512_set1_ps(kRounder), first_multiplier_f32x16_, second_multiplier_f32x16_;
  __m512i unbias_i32x16_, first_factors_i16x32_, second_factors_i16x32_;
};

// The rows of an area in turn, where sums and codes of a row are: at regular distances, or as they are listed.
template <std::size_t row_sums>
class RegularRows {
 public:
  __attribute__((always_inline)) RegularRows(const GemmBlock& block, const WaitingArea& area, std::size_t) noexcept
      : sums_(area.sums() + area.rows->first().sums),
        output_(block.output + area.panel + area.rows->first().place),
        output_stride_(block.output_row_stride) {}

  __attribute__((always_inline)) const std::int32_t* sums(std::size_t row) const noexcept {
    return sums_ + row * row_sums;
  }
  __attribute__((always_inline)) std::uint8_t* output(std::size_t row) const noexcept {
    return output_ + row * output_stride_;
  }
  __attribute__((always_inline)) void pass(std::size_t rows) noexcept {
    sums_ += rows * row_sums;
    output_ += rows * output_stride_;
  }

 private:
  const std::int32_t* sums_;
  std::uint8_t* output_;
  std::size_t output_stride_;
};

class ListedRows {
 public:
  __attribute__((always_inline)) ListedRows(const GemmBlock& block, const WaitingArea& area, std::size_t row) noexcept
      : sums_(area.sums()),
        output_(block.output + area.panel),
        of_sums_(area.rows->sums() + row),
        place_(area.rows->places() + row) {}

  __attribute__((always_inline)) const std::int32_t* sums(std::size_t row) const noexcept {
    return sums_ + of_sums_[row];
  }
  __attribute__((always_inline)) std::uint8_t* output(std::size_t row) const noexcept { return output_ + place_[row]; }
  __attribute__((always_inline)) void pass(std::size_t rows) noexcept {
    of_sums_ += rows;
    place_ += rows;
  }

 private:
  const std::int32_t* sums_;
  std::uint8_t* output_;
  const std::uint32_t* of_sums_;
  const std::size_t* place_;
};

// Makes codes of two rows of 32 columns (`is_whole`) or fewer at a time, or of four of up to 16: a unit.
template <class Rows, std::size_t rows_at_once, bool is_whole, bool has_zero_points, bool is_signed>
class FinishByAdding {
 public:
  __attribute__((always_inline)) FinishByAdding(const GemmBlock& block, const WaitingArea& area,
                                                std::size_t row = 0) noexcept
      : make_(block, area.panel),
        rows_(block, area, row),
        activation_(area.rows->activation() + row),
        mask_(static_cast<__mmask32>((std::uint64_t{1} << area.columns) - 1)) {}

  __attribute__((always_inline)) void finish_unit() noexcept {
    const __m512i a_i32x16 = load<0>(), b_i32x16 = load<1>(), c_i32x16 = load<2>(), d_i32x16 = load<3>();
    store(make_.codes(activation_, a_i32x16, b_i32x16, c_i32x16, d_i32x16));
    rows_.pass(rows_at_once);
    activation_ += rows_at_once;
  }

  template <int units>
  __attribute__((always_inline)) void finish_units() noexcept {
    if constexpr (units > 0) finish_unit();
    if constexpr (units > 1) finish_units<units - 1>();
  }

 private:
  static constexpr std::size_t kPanels = 4 / rows_at_once;

  template <std::size_t number>
  __attribute__((always_inline)) __m512i load() const noexcept {
    return load_here(rows_.sums(number / kPanels) + number % kPanels * kNr);
  }

  __attribute__((always_inline)) void store(__m512i codes_u8x64) const noexcept {
    if constexpr (is_whole) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows_.output(0)), _mm512_castsi512_si256(codes_u8x64));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows_.output(1)), _mm512_extracti64x4_epi64(codes_u8x64, 1));
    } else if constexpr (rows_at_once == 2) {
      _mm256_mask_storeu_epi8(rows_.output(0), mask_, _mm512_castsi512_si256(codes_u8x64));
      _mm256_mask_storeu_epi8(rows_.output(1), mask_, _mm512_extracti64x4_epi64(codes_u8x64, 1));
    } else {
      const auto of_row = static_cast<__mmask16>(mask_);
      _mm_mask_storeu_epi8(rows_.output(0), of_row, _mm512_castsi512_si128(codes_u8x64));
      _mm_mask_storeu_epi8(rows_.output(1), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 1));
      _mm_mask_storeu_epi8(rows_.output(2), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 2));
      _mm_mask_storeu_epi8(rows_.output(3), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 3));
    }
  }

  const CodesByAdding<kPanels, has_zero_points, is_signed> make_;
  Rows rows_;
  const std::int32_t* activation_;
  __mmask32 mask_;
};

template <std::size_t rows_at_once, bool is_whole, bool has_zero_points, bool is_signed>
void finish_by_adding(const GemmBlock& block, const WaitingArea& area) noexcept {
  std::size_t row = 0;
  const auto finish_regular = [&]<std::size_t row_sums>() {
    FinishByAdding<RegularRows<row_sums>, rows_at_once, is_whole, has_zero_points, is_signed> finish(block, area);
    for (; row + rows_at_once <= area.rows->count(); row += rows_at_once) finish.finish_unit();
  };
  if (area.rows->are_regular()) {
    area.row_sums() == kTall.columns() ? finish_regular.template operator()<kTall.columns()>()
                                       : finish_regular.template operator()<kSquare.columns()>();
  }
  if (row == area.rows->count()) return;
  area.rows->list();
  FinishByAdding<ListedRows, rows_at_once, is_whole, has_zero_points, is_signed> finish(block, area, row);
  for (; row < area.rows->count(); row += rows_at_once) finish.finish_unit();
}

// What cannot be finished so: int32 results, large multipliers, very long activation sums.
void finish_otherwise(const GemmBlock& block, const WaitingArea& area) noexcept {
  area.rows->list();
  const bool has_second = area.columns > kNr;
  const auto finish_row = [&](const std::int32_t* sums, std::size_t place, std::int32_t activation) {
    const auto sum = [&](std::size_t column) {
      const __m512i sum_i32x16 = _mm512_load_si512(sums + column);
      if (block.filter_zero_point == nullptr) return sum_i32x16;
      const __m512i zero_point_i32x16 = _mm512_loadu_si512(block.filter_zero_point + area.panel + column);
      const __m512i activation_i32x16 = _mm512_set1_epi32(activation);
      return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(zero_point_i32x16, activation_i32x16));
    };
    const __m512i first_i32x16 = sum(0), second_i32x16 = sum(has_second ? kNr : 0);
    if (block.sums != nullptr) {
      store_sums<0>(block, area.columns, block.sums + place, first_i32x16);
      if (has_second) store_sums<1>(block, area.columns, block.sums + place, second_i32x16);
    } else {
      Tile tile = tile_of(block, kNr, area.panel, 0, 0, 0);
      tile.columns = area.columns;
      Requantizer(block, tile).store_single<false>(block.output + place, first_i32x16, second_i32x16);
    }
  };
  for (std::size_t row = 0; row < area.rows->count(); ++row) {
    finish_row(area.sums() + area.rows->sums()[row], area.rows->places()[row] + area.panel,
               area.rows->activation()[row]);
  }
}
