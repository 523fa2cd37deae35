// How the AMX kernel makes codes of sums that have left the tiles.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles, terms_of, amx_areas.inl.h
// and requantize_avx512_vnni.inl.h.
//
// While tiles are multiplied, the vector unit's second port takes no multiplications and conversions. So what can go to
// either port is best: rounding is an addition of floats, and zero points are added to 32-bit integers. They cost least
// among the tiles' instructions: a processor looks only some of these ahead, and what stands behind waits.

// Below 2^23. Floats from 2^22 on make differences from kRounderBits beyond as well, which saturate.
constexpr float kMostRounded = 8000000.0F;

// What codes are made of sums with.
struct CodesKind {
  bool is_of_planes;     // products of planes: multipliers are of rows
  bool has_zero_points;  // of filters
  bool is_signed;        // the codes are
};

// The largest magnitude of a block's activation sums; 0 without zero points.
std::uint32_t largest_activation_sum(const GemmBlock& block) noexcept {
  if (block.filter_zero_point == nullptr) return 0;
  __m512i largest_u32x16 = _mm512_setzero_si512();
  const std::size_t count = block.is_of_planes ? block.n : block.runs * block.m;
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
  const std::size_t count = block.is_of_planes ? block.m : block.n;
  for (std::size_t i = 0; i < count; i += kNr) {
    const __mmask16 mask = lane_mask(count - i);
    const __m512i offset_i32x16 = _mm512_maskz_loadu_epi32(mask, block.offset + i);
    const __m512 multiplier_f32x16 = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, block.multiplier + i));
    const __m512 sum_f32x16 = _mm512_add_ps(_mm512_abs_ps(_mm512_cvtepi32_ps(offset_i32x16)), most_f32x16);
    beyond |= _mm512_mask_cmp_ps_mask(mask, _mm512_mul_ps(sum_f32x16, multiplier_f32x16), _mm512_set1_ps(kMostRounded),
                                      _CMP_NLT_UQ);
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

// What rows have of their own: factors of zero points or of activation sums, and multipliers.
struct RowValues {
  const std::int32_t* terms;
  const float* multipliers;
};

// What makes codes of sums in the columns of one panel, or of two. Its members are no arrays, which compilers would
// keep in memory, and read again after each tile that is stored.
template <std::size_t panels, CodesKind kind>
class CodesByAdding {
 public:
  __attribute__((always_inline)) CodesByAdding(const GemmBlock& block, std::size_t panel) noexcept {
    const std::int32_t zero_point = static_cast<std::int32_t>(block.output_zero_point) - (kind.is_signed ? 128 : 0);
    unbias_i32x16_ = _mm512_set1_epi32(kRounderBits - zero_point);
    const std::size_t second = panel + (panels - 1) * kNr;
    if constexpr (!kind.is_of_planes) {
      first_multiplier_f32x16_ = _mm512_loadu_ps(block.multiplier + panel);
      second_multiplier_f32x16_ = _mm512_loadu_ps(block.multiplier + second);
    }
    if constexpr (kind.has_zero_points) {
      first_factors_i16x32_ = factors(block, panel);
      second_factors_i16x32_ = factors(block, second);
    }
  }

  // Of four vectors: of the first row's panels, of the second row's, and so on.
  __attribute__((always_inline)) __m512i codes(const RowValues& rows, __m512i a_i32x16, __m512i b_i32x16,
                                               __m512i c_i32x16, __m512i d_i32x16) const noexcept {
    return saturated<kind.is_signed>(rounded<0>(rows, a_i32x16), rounded<1>(rows, b_i32x16), rounded<2>(rows, c_i32x16),
                                     rounded<3>(rows, d_i32x16));
  }

 private:
  __attribute__((always_inline)) static __m512i factors(const GemmBlock& block, std::size_t column) noexcept {
    if constexpr (kind.is_of_planes) return factors_of_negative(_mm512_loadu_si512(block.activation_sum + column));
    return filter_factors(_mm512_loadu_si512(block.filter_zero_point + column));
  }

  template <std::size_t number>
  __attribute__((always_inline)) __m512i rounded(const RowValues& rows, __m512i sum_i32x16) const noexcept {
    constexpr bool is_second = number % panels == 1;
    if constexpr (kind.has_zero_points) {
      const __m512i term_i16x32 = _mm512_set1_epi32(rows.terms[number / panels]);
      sum_i32x16 =
          _mm512_dpwssd_epi32(sum_i32x16, is_second ? second_factors_i16x32_ : first_factors_i16x32_, term_i16x32);
    }
    const __m512 multiplier_f32x16 = kind.is_of_planes ? _mm512_set1_ps(rows.multipliers[number / panels])
                                     : is_second       ? second_multiplier_f32x16_
                                                       : first_multiplier_f32x16_;
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16), multiplier_f32x16);
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
template <class Rows, std::size_t rows_at_once, bool is_whole, CodesKind kind>
class FinishByAdding {
 public:
  __attribute__((always_inline)) FinishByAdding(const GemmBlock& block, const WaitingArea& area,
                                                std::size_t row = 0) noexcept
      : make_(block, area.panel),
        rows_(block, area, row),
        values_{area.rows->terms() + row, area.rows->multipliers() + row},
        mask_(static_cast<__mmask32>((std::uint64_t{1} << area.columns) - 1)) {}

  __attribute__((always_inline)) void finish_unit() noexcept {
    const __m512i a_i32x16 = load<0>(), b_i32x16 = load<1>(), c_i32x16 = load<2>(), d_i32x16 = load<3>();
    store(make_.codes(values_, a_i32x16, b_i32x16, c_i32x16, d_i32x16));
    rows_.pass(rows_at_once);
    values_.terms += rows_at_once;
    values_.multipliers += rows_at_once;
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

  const CodesByAdding<kPanels, kind> make_;
  Rows rows_;
  RowValues values_;
  __mmask32 mask_;
};

template <std::size_t rows_at_once, bool is_whole, CodesKind kind>
void finish_by_adding(const GemmBlock& block, const WaitingArea& area) noexcept {
  std::size_t row = 0;
  const auto finish_regular = [&]<std::size_t row_sums>() {
    FinishByAdding<RegularRows<row_sums>, rows_at_once, is_whole, kind> finish(block, area);
    for (; row + rows_at_once <= area.rows->count(); row += rows_at_once) finish.finish_unit();
  };
  if (area.rows->are_regular()) {
    area.row_sums() == kTall.columns() ? finish_regular.template operator()<kTall.columns()>()
                                       : finish_regular.template operator()<kSquare.columns()>();
  }
  if (row == area.rows->count()) return;
  area.rows->list();
  FinishByAdding<ListedRows, rows_at_once, is_whole, kind> finish(block, area, row);
  for (; row < area.rows->count(); row += rows_at_once) finish.finish_unit();
}

// What cannot be finished so: int32 results, large multipliers, very long activation sums.
void finish_otherwise(const GemmBlock& block, const WaitingArea& area) noexcept {
  area.rows->list();
  const bool has_second = area.columns > kNr;
  const std::int32_t* const column_terms = block.is_of_planes ? block.activation_sum : block.filter_zero_point;
  const auto finish_row = [&](const std::int32_t* sums, std::size_t place, std::int32_t term, float multiplier) {
    const auto sum = [&](std::size_t column) {
      const __m512i sum_i32x16 = _mm512_load_si512(sums + column);
      if (block.filter_zero_point == nullptr) return sum_i32x16;
      const __m512i terms_i32x16 = _mm512_loadu_si512(column_terms + area.panel + column);
      return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(terms_i32x16, _mm512_set1_epi32(term)));
    };
    const __m512i first_i32x16 = sum(0), second_i32x16 = sum(has_second ? kNr : 0);
    if (block.sums != nullptr) {
      store_sums<0>(block, area.columns, block.sums + place, first_i32x16);
      if (has_second) store_sums<1>(block, area.columns, block.sums + place, second_i32x16);
    } else {
      float multipliers[2 * kNr];
      Tile tile = {};
      tile.columns = area.columns;
      tile.multiplier = block.multiplier + area.panel;
      if (block.is_of_planes) {
        _mm512_storeu_ps(multipliers, _mm512_set1_ps(multiplier));
        _mm512_storeu_ps(multipliers + kNr, _mm512_set1_ps(multiplier));
        tile.multiplier = multipliers;
      }
      Requantizer(block, tile).store_single<false>(block.output + place, first_i32x16, second_i32x16);
    }
  };
  for (std::size_t row = 0; row < area.rows->count(); ++row) {
    finish_row(area.sums() + area.rows->sums()[row], area.rows->places()[row] + area.panel, area.rows->terms()[row],
               block.is_of_planes ? area.rows->multipliers()[row] : 0.0F);
  }
}
