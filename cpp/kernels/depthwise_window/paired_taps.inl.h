// 3x3 windows of small codes for AVX2: vpmaddubsw multiplies pairs of taps, of which up to three are added up in 16
// bits. Included inside the unnamed namespace of a kernel file, behind codes/pair_sums_avx2.inl.h.
//
// 32 channels at a time, whose unpacks make two vectors of 16 channels each, the lower and the upper half of every 16:
//
//   rows r0 r1 of a column          low [r0 r1] of channels 0-7 and 16-23      high [r0 r1] of 8-15 and 24-31
//   row r2, of columns x x+1        low [x x+1] ...                            high [x x+1] ...       x is even
//
// Columns 0 and 1 of rows r0 and r1 are one set of taps, all others another one. The sums of both sets, of 16 bits, are
// brought together by unpacks and added up in 32 bits by vpmaddwd. Packs of these to bytes are in order again.
//
// This is exact where the codes of no pair that are of one sign add up to more than 128 in magnitude, and those of no
// set to more than 257: products with 0..255 span 65535 then, as the values of 16 bits do, to which a bias moves them.
template <std::size_t stride, bool is_signed>
class PairedTaps {
 public:
  static constexpr std::size_t kChannels = 32;

  // 32 channels of a block, from the first of these lanes on: 8 of each vector of a window's lanes.
  PairedTaps(const DepthwiseWindowRun& run, std::size_t channel, std::size_t number, std::size_t lane) noexcept
      : run_(run), channel_(channel), rows_{{run.padding, run.padding, run.padding}, {}} {
    const std::int8_t* groups = run.filter + number * kWindow * kWindowLanes * 4;
    is_exact_ =
        pair_filter(groups, number * kWindowLanes, lane, 0) && pair_filter(groups, number * kWindowLanes, lane + 32, 1);
  }

  bool is_exact() const noexcept { return is_exact_; }

  // The sums of a stretch of a row first, then their codes, as a code waits long for its sum.
  void convolve() noexcept {
    const std::size_t step = run_.output_pixel_stride;
    for (std::size_t row = 0; row < run_.output_rows; ++row) {
      for (std::size_t i = 0; i < kWindow; ++i) rows_[1][i] = run_.rows[row * kWindow + i] + channel_;
      for (std::size_t pixel = 0; pixel < run_.pixels; pixel += kMostPixels) {
        const std::size_t left = run_.pixels - pixel, pixels = left < kMostPixels ? left : kMostPixels;
        // The last ones are summed with some of those before them once more.
        for (std::size_t p = 0; p < pixels; p += kPixels) {
          sum_pixels(pixel, pixels < kPixels ? 0 : pixels - p < kPixels ? pixels - kPixels : p);
        }
        const std::size_t element = row * run_.output_row_stride + pixel * step + channel_;
        if (run_.sums != nullptr) {
          for (std::size_t p = 0; p < pixels; ++p) store_sums(run_.sums + element + p * step, p);
        } else {
          may_exceed_ ? store_codes<true>(run_.output + element, pixels)
                      : store_codes<false>(run_.output + element, pixels);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kWindow = 3, kColumns = (kPixels - 1) * stride + kWindow;

  static __m256i load(const void* bytes) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }

  // The sums of a set's codes: of the negative ones, negated, and of all in magnitude.
  struct SetSums {
    __m256i negative_i16x16, magnitude_i16x16;
    void add(__m256i tap_i16x16) noexcept {
      negative_i16x16 = _mm256_sub_epi16(negative_i16x16, _mm256_min_epi16(tap_i16x16, _mm256_setzero_si256()));
      magnitude_i16x16 = _mm256_add_epi16(magnitude_i16x16, _mm256_abs_epi16(tap_i16x16));
    }
  };

  // Whether products of a pair with 0..255 fit 16 bits, and its codes, which filters with zero points may exceed, 8.
  static bool pair_fits(__m256i a_i16x16, __m256i b_i16x16) noexcept {
    const __m256i none = _mm256_setzero_si256(), most_i16x16 = _mm256_max_epi16(a_i16x16, b_i16x16);
    const __m256i positive_i16x16 =
        _mm256_add_epi16(_mm256_max_epi16(a_i16x16, none), _mm256_max_epi16(b_i16x16, none));
    const __m256i negative_i16x16 = _mm256_sub_epi16(positive_i16x16, _mm256_add_epi16(a_i16x16, b_i16x16));
    return all_at_most(_mm256_max_epi16(positive_i16x16, negative_i16x16), PairSums::kMost) &&
           all_at_most(most_i16x16, 127);
  }
  static __m256i pair_of(__m256i a_i16x16, __m256i b_i16x16) noexcept {
    return _mm256_or_si256(_mm256_and_si256(a_i16x16, _mm256_set1_epi16(0xff)), _mm256_slli_epi16(b_i16x16, 8));
  }

  // The filter of 16 channels, two vectors of 8 lanes that are 16 lanes apart; returns whether pairs and sets are
  // exact.
  bool pair_filter(const std::int8_t* groups, std::size_t first_lane, std::size_t lane, std::size_t half) noexcept {
    const std::size_t lanes[2] = {first_lane + lane, first_lane + lane + 16};
    __m256i zero_i32x8[2] = {};
    for (std::size_t v = 0; v < 2 && run_.filter_zero_point != nullptr; ++v) {
      zero_i32x8[v] = load(run_.filter_zero_point + lanes[v]);
    }
    const __m256i none = _mm256_setzero_si256();
    SetSums sums[2] = {};
    __m256i last_i16x16[kWindow + 2] = {none};
    for (std::size_t column = 0; column < kWindow; ++column) {
      const std::int8_t* codes = groups + (column * kWindowLanes + lane) * 4;
      const __m256i codes_x32[2] = {load(codes), load(codes + 64)};
      const auto tap = [&](int row) {
        const auto of_vector = [&](std::size_t v) {
          return _mm256_sub_epi32(_mm256_srai_epi32(_mm256_slli_epi32(codes_x32[v], 24 - 8 * row), 24), zero_i32x8[v]);
        };
        return _mm256_packs_epi32(of_vector(0), of_vector(1));
      };
      const __m256i upper_i16x16 = tap(0), lower_i16x16 = tap(1);
      if (!pair_fits(upper_i16x16, lower_i16x16)) return false;
      filter_.rows_i8x32[column][half] = pair_of(upper_i16x16, lower_i16x16);
      sums[column / 2].add(upper_i16x16);
      sums[column / 2].add(lower_i16x16);
      last_i16x16[column + 1] = tap(2);
      sums[1].add(last_i16x16[column + 1]);
    }
    last_i16x16[kWindow + 1] = none;
    for (std::size_t column = 0; column <= kWindow; ++column) {
      if (!pair_fits(last_i16x16[column], last_i16x16[column + 1])) return false;
      filter_.last_i8x32[column][half] = pair_of(last_i16x16[column], last_i16x16[column + 1]);
    }
    if (!all_at_most(_mm256_max_epi16(sums[0].magnitude_i16x16, sums[1].magnitude_i16x16), 257)) return false;

    __m256i(&offset_i32x8)[2] = offset_i32x8_[half];
    for (std::size_t v = 0; v < 2; ++v) {
      offset_i32x8[v] = load(run_.offset + lanes[v]);
      multiplier_f32x8_[half][v] =
          run_.sums == nullptr ? _mm256_loadu_ps(run_.multiplier + lanes[v]) : _mm256_setzero_ps();
      may_exceed_ |= !all_below_1(multiplier_f32x8_[half][v]);
    }
    for (std::size_t set = 0; set < 2; ++set) {
      // The least sum becomes -32768.
      const __m256i bias_i16x16 = _mm256_add_epi16(
          _mm256_mullo_epi16(sums[set].negative_i16x16, _mm256_set1_epi16(255)), _mm256_set1_epi16(-32768));
      const __m256i sign_i16x16 = _mm256_srai_epi16(bias_i16x16, 15);
      filter_.bias_i16x16[set][half] = bias_i16x16;
      offset_i32x8[0] = _mm256_sub_epi32(offset_i32x8[0], _mm256_unpacklo_epi16(bias_i16x16, sign_i16x16));
      offset_i32x8[1] = _mm256_sub_epi32(offset_i32x8[1], _mm256_unpackhi_epi16(bias_i16x16, sign_i16x16));
    }
    return true;
  }

  using Rows = const std::uint8_t* [kWindow];

  // The windows of four pixels: their first column, those that follow, from the second on, and the last one. Most that
  // reach into the padding do with one column, the first or the last.
  struct Columns {
    Rows first, inner, last;
    std::ptrdiff_t step;
  };
  __attribute__((always_inline)) Columns columns_from(std::ptrdiff_t first,
                                                      std::uint8_t (&copy)[kWindow][kColumns][kChannels]) noexcept {
    const auto is_within = [&](std::ptrdiff_t column) { return 0 <= column && column < run_.columns; };
    const std::ptrdiff_t last = first + static_cast<std::ptrdiff_t>(kColumns - 1), step = run_.column_step;
    Columns columns = {.first = {}, .inner = {}, .last = {}, .step = step};
    if (is_within(first + 1) && is_within(last - 1)) {
      const bool has_first = first >= 0, has_last = last < run_.columns;
      const std::ptrdiff_t first_bytes = has_first ? first * step : 0, last_bytes = has_last ? last * step : 0;
      for (std::size_t row = 0; row < kWindow; ++row) {
        columns.first[row] = rows_[has_first][row] + first_bytes;
        columns.inner[row] = rows_[1][row] + (first + 1) * step;
        columns.last[row] = rows_[has_last][row] + last_bytes;
      }
      return columns;
    }
    const Windows<kWindow> windows = windows_of<kWindow>(run_, rows_[1], first, copy);
    for (std::size_t row = 0; row < kWindow; ++row) {
      columns.first[row] = windows.rows[row];
      columns.inner[row] = windows.rows[row] + windows.step;
      columns.last[row] = windows.rows[row] + static_cast<std::ptrdiff_t>(kColumns - 1) * windows.step;
    }
    columns.step = windows.step;
    return columns;
  }

  // Four pixels of a row.
  void sum_pixels(std::size_t first_pixel, std::size_t pixel) noexcept {
    alignas(32) std::uint8_t copy[kWindow][kColumns][kChannels];
    Columns columns =
        columns_from(run_.first_column + static_cast<std::ptrdiff_t>((first_pixel + pixel) * stride), copy);
    sum_half<0>(columns, sum_i16x16_ + pixel);
    // Keeps the compiler from keeping codes for the other half, as registers are few.
    for (std::size_t row = 0; row < kWindow; ++row) {
      __asm__("" : "+r"(columns.first[row]), "+r"(columns.inner[row]), "+r"(columns.last[row]));
    }
    sum_half<1>(columns, sum_i16x16_ + pixel);
  }

  static __attribute__((always_inline)) void add(__m256i pairs_u8x32, const __m256i& filter_i8x32,
                                                 __m256i& sum_i16x16) noexcept {
    __m256i added_i16x16 = _mm256_add_epi16(sum_i16x16, _mm256_maddubs_epi16(pairs_u8x32, filter_i8x32));
    // Keeps the compiler from adding products up in another order, which takes more registers than there are.
    __asm__("" : "+x"(added_i16x16));
    sum_i16x16 = added_i16x16;
  }

  // Two rows of a column, or a row of two columns.
  template <std::size_t half>
  static __attribute__((always_inline)) __m256i interleaved(const std::uint8_t* a, const std::uint8_t* b) noexcept {
    const __m256i pairs_x32 =
        half == 0 ? _mm256_unpacklo_epi8(load(a), load(b)) : _mm256_unpackhi_epi8(load(a), load(b));
    return is_signed ? _mm256_xor_si256(pairs_x32, _mm256_set1_epi8(-128)) : pairs_x32;
  }

  using SetsOfPixel = __m256i[2][2];  // of each half

  template <std::size_t half>
  __attribute__((always_inline)) void sum_half(const Columns& columns, SetsOfPixel* output) const noexcept {
    __m256i sum_i16x16[kPixels][2];
    for (auto& of_pixel : sum_i16x16) {
      for (std::size_t set = 0; set < 2; ++set) of_pixel[set] = filter_.bias_i16x16[set][half];
    }
    const auto at = [&](std::size_t row, std::size_t column) {
      return column == 0              ? columns.first[row]
             : column == kColumns - 1 ? columns.last[row]
                                      : columns.inner[row] + static_cast<std::ptrdiff_t>(column - 1) * columns.step;
    };
#pragma GCC unroll 9
    for (std::size_t column = 0; column < kColumns; ++column) {
      const __m256i pairs_u8x32 = interleaved<half>(at(0, column), at(1, column));
#pragma GCC unroll 4
      for (std::size_t p = 0; p < kPixels; ++p) {
        const std::size_t of_window = column - p * stride;
        if (of_window < kWindow) add(pairs_u8x32, filter_.rows_i8x32[of_window][half], sum_i16x16[p][of_window / 2]);
      }
      if (column % 2 != 0) continue;
      const __m256i last_u8x32 = interleaved<half>(at(2, column), at(2, column + 1 < kColumns ? column + 1 : column));
#pragma GCC unroll 4
      for (std::size_t p = 0; p < kPixels; ++p) {
        const std::size_t of_window = column + 1 - p * stride;
        if (of_window <= kWindow) add(last_u8x32, filter_.last_i8x32[of_window][half], sum_i16x16[p][1]);
      }
    }
    for (std::size_t p = 0; p < kPixels; ++p) {
      for (std::size_t set = 0; set < 2; ++set) output[p][half][set] = sum_i16x16[p][set];
    }
  }

  // Of 16 channels, in the order of the unpacks.
  struct Sums {
    __m256i i32x8[2];
  };
  static __attribute__((always_inline)) Sums sums_of(const __m256i (&sets_i16x16)[2],
                                                     const __m256i (&offset_i32x8)[2]) noexcept {
    const __m256i ones_i16x16 = _mm256_set1_epi16(1);
    const __m256i low_i16x16 = _mm256_unpacklo_epi16(sets_i16x16[0], sets_i16x16[1]);
    const __m256i high_i16x16 = _mm256_unpackhi_epi16(sets_i16x16[0], sets_i16x16[1]);
    return {{_mm256_add_epi32(offset_i32x8[0], _mm256_madd_epi16(low_i16x16, ones_i16x16)),
             _mm256_add_epi32(offset_i32x8[1], _mm256_madd_epi16(high_i16x16, ones_i16x16))}};
  }

  template <bool may_exceed>
  void store_codes(std::uint8_t* output, std::size_t pixels) const noexcept {
    const __m256i zero_point_i16x16 = _mm256_set1_epi16(static_cast<short>(run_.output_zero_point));
    const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run_.flip));
    // Copies: bytes of output could alias the originals.
    __m256i offset_i32x8[2][2];
    __m256 multiplier_f32x8[2][2];
    for (std::size_t i = 0; i < 4; ++i) {
      offset_i32x8[i / 2][i % 2] = offset_i32x8_[i / 2][i % 2];
      multiplier_f32x8[i / 2][i % 2] = multiplier_f32x8_[i / 2][i % 2];
    }
    const auto in_16_bits = [&](std::size_t p, std::size_t half) {
      const Sums sums = sums_of(sum_i16x16_[p][half], offset_i32x8[half]);
      __m256i rounded_i32x8[2];
      for (std::size_t v = 0; v < 2; ++v) {
        const __m256 scaled_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(sums.i32x8[v]), multiplier_f32x8[half][v]);
        rounded_i32x8[v] = _mm256_cvtps_epi32(may_exceed ? bounded(scaled_f32x8) : scaled_f32x8);
      }
      return _mm256_adds_epi16(_mm256_packs_epi32(rounded_i32x8[0], rounded_i32x8[1]), zero_point_i16x16);
    };
    const std::size_t step = run_.output_pixel_stride;
    for (std::size_t p = 0; p < pixels; ++p, output += step) {
      const __m256i codes_u8x32 = _mm256_packus_epi16(in_16_bits(p, 0), in_16_bits(p, 1));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), _mm256_xor_si256(codes_u8x32, flip_u8x32));
    }
  }

  void store_sums(std::int32_t* output, std::size_t pixel) const noexcept {
    for (std::size_t half = 0; half < 2; ++half, output += 8) {
      const Sums sums = sums_of(sum_i16x16_[pixel][half], offset_i32x8_[half]);
      const auto store = [&](std::size_t at, __m256i sum_i32x8) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + at), sum_i32x8);
      };
      store(0, _mm256_permute2x128_si256(sums.i32x8[0], sums.i32x8[1], 0x20));
      store(16, _mm256_permute2x128_si256(sums.i32x8[0], sums.i32x8[1], 0x31));
    }
  }

  // Pairs of rows r0 and r1 of each column, and of row r2's columns c - 1 and c, of which those outside the window are
  // 0.
  struct Filter {
    __m256i rows_i8x32[kWindow][2], last_i8x32[kWindow + 1][2], bias_i16x16[2][2];
  };

  const DepthwiseWindowRun run_;  // a copy: bytes of output could alias the original
  std::size_t channel_;
  bool is_exact_, may_exceed_ = false;
  Rows rows_[2];  // the padding in place of each, and the rows themselves
  Filter filter_;
  __m256i offset_i32x8_[2][2];
  __m256 multiplier_f32x8_[2][2];
  SetsOfPixel sum_i16x16_[kMostPixels];  // of a stretch of a row
};
