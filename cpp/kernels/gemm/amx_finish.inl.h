// How the AMX kernel makes codes of sums that have left the tiles.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles, terms_of and
// requantize_avx512_vnni.inl.h.
//
// While tiles are multiplied, the vector unit's second port takes no multiplications and conversions. So what can go to
// either port is best: rounding is an addition of floats, and zero points are added to 32-bit integers. Sixteen such
// operations beside each product of tiles cost nothing, as long as they stand among the tiles' instructions: a
// processor looks only some products ahead, as tiles are renamed, and what stands behind them waits.

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

// The rows of a group that are results, one after the other: at which element of an area's sums a row begins, at which
// place of the output, from a column on, and what its activation sum is, or is to vpdpwssd. Behind the last one it
// stands again: whole areas are finished without looking how many there are, others four rows at a time.
struct ResultRows {
  static constexpr std::size_t kMost = kMostParts * kTileRows, kRowsOfWhole = 2 * kTileRows;

  std::size_t count = 0, stretches = 0;
  alignas(64) std::uint32_t sums[kMost + 16];  // stretches are written in whole vectors
  alignas(64) std::int32_t activation[kMost + 16];
  alignas(64) std::size_t place[kMost + 8];

  // From a row to the next.
  struct Steps {
    alignas(64) std::size_t places[8];  // from the first row to eight
    alignas(64) std::uint32_t sums[16];

    Steps(std::size_t place, std::size_t sum) noexcept {
      for (std::size_t row = 0; row < 8; ++row) places[row] = row * place;
      for (std::size_t row = 0; row < 16; ++row) sums[row] = static_cast<std::uint32_t>(row * sum);
    }
  };

  // Rows whose sums and places are at a regular distance, and their activation sums neighbours.
  struct Stretch {
    std::size_t rows, sums, place;
    const std::int32_t* activation_sums;  // may be null

    bool goes_on_at(std::size_t next_sums, std::size_t next_place, const Steps& steps) const noexcept {
      return rows != 0 && next_sums == sums + rows * steps.sums[1] && next_place == place + rows * steps.places[1];
    }
  };

  void add(const Stretch& stretch, const Steps& steps, bool factors_activation_sums) noexcept {
    if (stretch.rows == 0) return;
    ++stretches;
    const __m512i first_place_u64x8 = _mm512_load_si512(steps.places);
    for (std::size_t row = 0; row < stretch.rows; row += 8) {
      const __m512i from_u64x8 = _mm512_set1_epi64(static_cast<long long>(stretch.place + row * steps.places[1]));
      _mm512_storeu_si512(place + count + row, _mm512_add_epi64(from_u64x8, first_place_u64x8));
    }
    const __m512i first_sum_u32x16 = _mm512_load_si512(steps.sums);
    for (std::size_t row = 0; row < stretch.rows; row += 16) {
      const __m512i from_u32x16 = _mm512_set1_epi32(static_cast<int>(stretch.sums + row * steps.sums[1]));
      _mm512_storeu_si512(sums + count + row, _mm512_add_epi32(from_u32x16, first_sum_u32x16));
      if (stretch.activation_sums == nullptr) continue;
      const __mmask16 of_rows = lane_mask(stretch.rows - row);
      const __m512i activation_i32x16 = _mm512_maskz_loadu_epi32(of_rows, stretch.activation_sums + row);
      _mm512_storeu_si512(activation + count + row,
                          factors_activation_sums ? factors_of_negative(activation_i32x16) : activation_i32x16);
    }
    count += stretch.rows;
  }

  // There is a row: what lies between two runs that are cut as one is shorter than a group, and the last
  // part ends with the last row.
  void complete() noexcept {
    for (std::size_t row = count; row < kRowsOfWhole || row % 4 != 0; ++row) {
      sums[row] = sums[count - 1];
      activation[row] = activation[count - 1];
      place[row] = place[count - 1];
    }
  }
};

// The sums of a group of rows by one or two panels of b.
struct Finished {
  std::size_t panel, columns;
  const std::int32_t* sums;
  const ResultRows* rows;
};

// Four vectors of 16 integers as bytes in their order. Packs work within 128 bits, so that dwords are put in order.
template <bool is_signed>
__attribute__((always_inline)) inline __m512i saturated(const __m512i* i32x16) noexcept {
  const __m512i low_i16x32 = _mm512_packs_epi32(i32x16[0], i32x16[1]);
  const __m512i high_i16x32 = _mm512_packs_epi32(i32x16[2], i32x16[3]);
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

// Makes codes of two rows of 32 columns (`is_whole`) or fewer at a time, or of four of up to 16: a unit.
template <std::size_t rows_at_once, bool is_whole, bool has_zero_points, bool is_signed>
class FinishByAdding {
 public:
  static constexpr bool kFinishes = true;

  __attribute__((always_inline)) FinishByAdding(const GemmBlock& block, const Finished& finished) noexcept
      : rows_(*finished.rows),
        sums_(finished.sums),
        output_(block.output + finished.panel),
        mask_(static_cast<__mmask32>((std::uint64_t{1} << finished.columns) - 1)) {
    const std::int32_t zero_point = static_cast<std::int32_t>(block.output_zero_point) - (is_signed ? 128 : 0);
    unbias_i32x16_ = _mm512_set1_epi32(kRounderBits - zero_point);
    rounder_f32x16_ = _mm512_set1_ps(kRounder);
    for (std::size_t panel = 0; panel < kPanels; ++panel) {
      const std::size_t column = finished.panel + kNr * panel;
      multiplier_f32x16_[panel] = _mm512_loadu_ps(block.multiplier + column);
      if constexpr (has_zero_points) factors_i16x32_[panel] = filter_factors(block.filter_zero_point + column);
    }
  }

  __attribute__((always_inline)) void operator()(std::size_t unit) const noexcept {
    const std::size_t first = unit * rows_at_once;
    const std::size_t* place = rows_.place + first;
    const __m512i codes_u8x64 = codes(rows_.activation + first, [&](std::size_t row, std::size_t column) {
      return load_here(sums_ + rows_.sums[first + row] + column);
    });
    store(codes_u8x64, [&](std::size_t row) { return output_ + place[row]; });
  }

  // All units, not among the instructions of tiles.
  void finish_all() const noexcept {
    std::size_t row = 0;
    if (rows_.stretches == 1 && rows_.count > 1) {
      const std::size_t sum_stride = rows_.sums[1] - rows_.sums[0], stride = rows_.place[1] - rows_.place[0];
      const std::int32_t* sums = sums_ + rows_.sums[0];
      std::uint8_t* output = output_ + rows_.place[0];
      for (; row + rows_at_once <= rows_.count; row += rows_at_once) {
        const __m512i codes_u8x64 = codes(rows_.activation + row, [&](std::size_t ahead, std::size_t column) {
          return _mm512_load_si512(sums + ahead * sum_stride + column);
        });
        store(codes_u8x64, [&](std::size_t ahead) { return output + ahead * stride; });
        sums += rows_at_once * sum_stride;
        output += rows_at_once * stride;
      }
    }
    for (; row < rows_.count; row += rows_at_once) (*this)(row / rows_at_once);
  }

 private:
  static constexpr std::size_t kPanels = 4 / rows_at_once;

  // load(row, column) gives 16 sums of a row of the unit, from a column on.
  template <class Load>
  __attribute__((always_inline)) __m512i codes(const std::int32_t* activation, Load load) const noexcept {
    __m512i sum_i32x16[4];
#pragma GCC unroll 4  // no branch stands among the tiles' instructions
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t panel = i % kPanels, row = i / kPanels;
      sum_i32x16[i] = load(row, kNr * panel);
      if constexpr (has_zero_points) {
        const __m512i activation_i16x32 = _mm512_set1_epi32(activation[row]);
        sum_i32x16[i] = _mm512_dpwssd_epi32(sum_i32x16[i], factors_i16x32_[panel], activation_i16x32);
      }
      const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16[i]), multiplier_f32x16_[panel]);
      const __m512 rounded_f32x16 = _mm512_add_ps(scaled_f32x16, rounder_f32x16_);
      sum_i32x16[i] = _mm512_sub_epi32(_mm512_castps_si512(rounded_f32x16), unbias_i32x16_);
    }
    return saturated<is_signed>(sum_i32x16);
  }

  // output(row) is where the codes of a row of the unit go.
  template <class Output>
  __attribute__((always_inline)) void store(__m512i codes_u8x64, Output output) const noexcept {
    if constexpr (is_whole) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output(0)), _mm512_castsi512_si256(codes_u8x64));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output(1)), _mm512_extracti64x4_epi64(codes_u8x64, 1));
    } else if constexpr (rows_at_once == 2) {
      _mm256_mask_storeu_epi8(output(0), mask_, _mm512_castsi512_si256(codes_u8x64));
      _mm256_mask_storeu_epi8(output(1), mask_, _mm512_extracti64x4_epi64(codes_u8x64, 1));
    } else {
      const auto of_row = static_cast<__mmask16>(mask_);
      _mm_mask_storeu_epi8(output(0), of_row, _mm512_castsi512_si128(codes_u8x64));
      _mm_mask_storeu_epi8(output(1), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 1));
      _mm_mask_storeu_epi8(output(2), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 2));
      _mm_mask_storeu_epi8(output(3), of_row, _mm512_extracti32x4_epi32(codes_u8x64, 3));
    }
  }

  const ResultRows& rows_;
  const std::int32_t* sums_;
  std::uint8_t* output_;
  __mmask32 mask_;
  __m512i unbias_i32x16_;
  __m512 rounder_f32x16_, multiplier_f32x16_[kPanels];
  __m512i factors_i16x32_[kPanels];
};

template <std::size_t rows_at_once, bool is_whole, bool has_zero_points, bool is_signed>
void finish_by_adding(const GemmBlock& block, const Finished& finished) noexcept {
  FinishByAdding<rows_at_once, is_whole, has_zero_points, is_signed>(block, finished).finish_all();
}

// What cannot be finished so: int32 results, large multipliers, very long activation sums.
void finish_otherwise(const GemmBlock& block, const Finished& finished) noexcept {
  const bool has_second = finished.columns > kNr;
  const auto finish_row = [&](const std::int32_t* sums, std::size_t place, std::int32_t activation) {
    const auto sum = [&](std::size_t column) {
      const __m512i sum_i32x16 = _mm512_load_si512(sums + column);
      if (block.filter_zero_point == nullptr) return sum_i32x16;
      const __m512i zero_point_i32x16 = _mm512_loadu_si512(block.filter_zero_point + finished.panel + column);
      const __m512i activation_i32x16 = _mm512_set1_epi32(activation);
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
  for (std::size_t row = 0; row < finished.rows->count; ++row) {
    finish_row(finished.sums + finished.rows->sums[row], finished.rows->place[row] + finished.panel,
               finished.rows->activation[row]);
  }
}
