// Products of filters of any codes for avx2.cpp, by vpmaddubsw: of activations up to 127, and of what is above.
// Included inside the unnamed namespace of that file, behind multiply_widened, avx2_step_order.inl.h and
// avx2_step_adder.inl.h.

// Most activations are small. Each is taken apart:
//
//   code = min(code, 127) + excess             excess = max(code - 127, 0), 0..128
//
// Products of codes up to 127 are exact by vpmaddubsw whatever the filter, and mostly eight k at a time, as those of
// filters of 7 bits are. So are those of excesses: two are within -128 * 256 and 128 * 254. They are added in those
// steps alone in which one of a tile's rows has an excess; where these are many, all terms are widened.
constexpr std::size_t kMostClippedTerms = 4 * kMostClippedSteps;

template <std::size_t rows>
struct ClippedTerms {
  static constexpr std::size_t kRowStride = kMostClippedTerms + 64;        // no multiple of a page
  static constexpr std::size_t kMostExcesses = 3 * kMostClippedSteps / 8;  // of more, widening takes less time

  alignas(32) std::uint8_t codes[rows][kRowStride];
  std::uint8_t excess[kMostExcesses][rows][4];  // of steps
  std::uint16_t steps[kMostExcesses];
  std::size_t step_count, most_steps;

  // Returns false where too many steps have an excess.
  bool take(const GemmBlock& block, const Tile& tile) noexcept {
    step_count = 0;
    most_steps = 3 * (block.segments * block.k / 4) / 8;
    std::size_t at = 0;
    for (std::size_t segment = 0; segment < block.segments; ++segment, at += block.k) {
      if (!take_segment(tile.a + block.a_offsets[segment], block.a_row_stride, block.k, at)) return false;
    }
    return true;
  }

 private:
  bool take_segment(const std::uint8_t* from, std::size_t row_stride, std::size_t count, std::size_t at) noexcept {
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32) {
      __m256i any_u8x32 = _mm256_setzero_si256();
#pragma GCC unroll 6
      for (std::size_t row = 0; row < rows; ++row) {
        const auto* place = reinterpret_cast<const __m256i*>(from + row * row_stride + i);
        const __m256i codes_u8x32 = _mm256_loadu_si256(place);
        any_u8x32 = _mm256_or_si256(any_u8x32, codes_u8x32);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes[row] + at + i),
                            _mm256_min_epu8(codes_u8x32, _mm256_set1_epi8(127)));
      }
      const auto above = static_cast<unsigned>(_mm256_movemask_epi8(any_u8x32));
      if (above != 0 && !take_excess(from + i, row_stride, above, at + i)) return false;
    }
    for (; i != count; i += 4) {
      int any = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        int four;
        __builtin_memcpy(&four, from + row * row_stride + i, sizeof(four));
        any |= four;
        four = _mm_cvtsi128_si32(_mm_min_epu8(_mm_cvtsi32_si128(four), _mm_set1_epi8(127)));
        __builtin_memcpy(codes[row] + at + i, &four, sizeof(four));
      }
      const unsigned above = static_cast<unsigned>(any) & 0x80808080U;
      if (above != 0 && !take_excess(from + i, row_stride, 1, at + i)) return false;
    }
    return true;
  }

  // Of the steps that have one of these bits, each of a k.
  bool take_excess(const std::uint8_t* from, std::size_t row_stride, unsigned above, std::size_t at) noexcept {
    while (above != 0) {
      const unsigned first = static_cast<unsigned>(__builtin_ctz(above)) & ~3U;
      above &= ~(15U << first);
      if (step_count == most_steps) return false;
      for (std::size_t row = 0; row < rows; ++row) {
        int four;
        __builtin_memcpy(&four, from + row * row_stride + first, sizeof(four));
        four = _mm_cvtsi128_si32(_mm_subs_epu8(_mm_cvtsi32_si128(four), _mm_set1_epi8(127)));
        __builtin_memcpy(excess[step_count][row], &four, sizeof(four));
      }
      steps[step_count++] = static_cast<std::uint16_t>((at + first) / 4);
    }
    return true;
  }
};

// The sums of a tile, or of half of it.
template <std::size_t rows, std::size_t halves>
inline void multiply_clipped_tile(const GemmBlock& block, const Tile& tile, const ClippedTerms<rows>& terms,
                                  const StepOrder& order) noexcept {
  const StepAdder<rows, halves> adder(ClippedTerms<rows>::kRowStride), adder_of_excess(4);
  const std::uint8_t *a = terms.codes[0], *b = tile.b;
  __m256i acc_i32x8[rows][halves];
  begin_sums(tile.offset, acc_i32x8);
  for (const std::size_t step : order.eights) adder.add_eight(a + 4 * step, b + 4 * kNr * step, acc_i32x8);
  for (const std::size_t step : order.fours) adder.add_four(a + 4 * step, b + 4 * kNr * step, acc_i32x8);
  for (std::size_t i = 0; i < terms.step_count; ++i) {
    adder_of_excess.add_four(terms.excess[i][0], b + 4 * kNr * terms.steps[i], acc_i32x8);
  }
  RowStorage(block, tile).store(acc_i32x8);
}

// Rows of a run by the columns from `first` to before `end`, or false where they had better be widened.
template <std::size_t rows>
bool multiply_clipped_rows(const GemmBlock& block, const std::uint16_t* b_order, std::size_t run, std::size_t first_row,
                           std::size_t first, std::size_t end) noexcept {
  const auto tile = [&](std::size_t panel) { return tile_of(block, kNr, panel, run, first_row, rows); };
  ClippedTerms<rows> terms;
  if (!terms.take(block, tile(first))) return false;
  for (std::size_t panel = first; panel < end; panel += kNr) {
    const StepOrder order = kept_order(b_order + panel / kNr * block.b_order_stride);
    block.n - panel > 8 ? multiply_clipped_tile<rows, 2>(block, tile(panel), terms, order)
                        : multiply_clipped_tile<rows, 1>(block, tile(panel), terms, order);
  }
  return true;
}

using ClippedRowsFunction = bool (*)(const GemmBlock& block, const std::uint16_t* b_order, std::size_t run,
                                     std::size_t first_row, std::size_t first, std::size_t end) noexcept;
constexpr ClippedRowsFunction kClippedRowsFunctions[kMr] = {multiply_clipped_rows<1>, multiply_clipped_rows<2>,
                                                            multiply_clipped_rows<3>, multiply_clipped_rows<4>,
                                                            multiply_clipped_rows<5>, multiply_clipped_rows<6>};

// By panels whose orders are of clipped codes. Activations are much the same throughout: rows behind a tile with too
// many excesses are widened, too.
void multiply_clipped(const GemmBlock& block, const std::uint16_t* b_order, std::size_t first, std::size_t end,
                      std::size_t& paying) noexcept {
  const Parts parts(block.m, kMr);
  std::size_t number = 0;
  for (std::size_t run = 0; run < block.runs; ++run) {
    for (std::size_t part = 0; part < parts.count; ++part, ++number) {
      const std::size_t rows = parts.rows_of(part), first_row = parts.first_row(part);
      if (number < paying) {
        if (kClippedRowsFunctions[rows - 1](block, b_order, run, first_row, first, end)) continue;
        paying = number;
      }
      kRowsFunctions[rows - 1](block, run, first_row, first, end);
    }
  }
}
