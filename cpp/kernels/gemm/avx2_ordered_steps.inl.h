// Products of filters of small codes for avx2.cpp, by vpmaddubsw.
// Included inside the unnamed namespace of that file, behind kNr, load_codes, broadcast and begin_sums.

// The steps of a panel in the order in which it is multiplied: a sum may take its terms in any order, and one loop for
// each kind of step has no branches to mispredict.
//
// vpmaddubsw adds two products in 16 bits. Where neither the positive nor the negative codes of neighbours in k add up
// to more than 128, the sum of their products with 0..255 is within 255 * 128 and so exact. Of eight k whose pairs fit
// even two by two, those sums are added in 16 bits before they are widened. Of four k with a pair that does not fit,
// the even and the odd ones are multiplied apart.
class PanelSteps {
 public:
  // Where a step's terms are, from the beginning of a row of a and of a panel.
  struct Step {
    std::uint32_t a, b;
  };

  // Returns false where widening all terms is faster. Steps that are too many for the lists are not ordered: then all
  // have to be of four k.
  bool order(const GemmBlock& block, const std::uint8_t* panel) noexcept {
    eights_ = fours_ = splits_ = 0;
    if (block.segments * block.k > 4 * kMostSteps) return is_without_splits(block, panel);
    std::size_t steps = 0;
    for (std::size_t segment = 0; segment < block.segments; ++segment) {
      const std::size_t a = block.a_offsets[segment], b = block.b_offsets[segment];
      if (a + block.k > UINT32_MAX || b + block.k * kNr > UINT32_MAX) return false;
      Step at = {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)};
      for (std::size_t eight = 0; eight < block.k / 8; ++eight, at = next_four(next_four(at))) {
        take_eight(at, panel + at.b);
        steps += 2;
        if (kStepsOfSplit * splits_ > steps + kLeastSteps) return false;
      }
      if (block.k % 8 != 0) {
        take_four(at, !(PairSums(panel + at.b).fit() && PairSums(panel + at.b + 32).fit()));
        ++steps;
      }
    }
    if (8 * eights_ <= steps / 2) take_eights_as_fours();
    return kStepsOfSplit * splits_ <= steps;
  }

  struct Range {
    const Step *first, *last;
    const Step* begin() const noexcept { return first; }
    const Step* end() const noexcept { return last; }
  };
  Range eights() const noexcept { return {outer_, outer_ + eights_}; }
  Range fours() const noexcept { return {inner_, inner_ + fours_}; }
  Range splits() const noexcept { return {outer_ + (kMostSteps - splits_), outer_ + kMostSteps}; }
  // Whether all steps are of four k: then they need no order.
  bool are_fours() const noexcept { return eights_ == 0 && splits_ == 0; }

 private:
  // A split takes twice the time of others, and widening all of them 1.3 times: one step of so many may be split, and
  // some more at the beginning of a panel.
  static constexpr std::size_t kMostSteps = 2560, kStepsOfSplit = 5, kLeastSteps = 32;

  // Of the pairs in four k of 8 columns, the sums of their positive and of their negative codes.
  struct PairSums {
    __m256i positive_i16x16, negative_i16x16;

    explicit PairSums(const std::uint8_t* b) noexcept {
      const __m256i ones_u8x32 = _mm256_set1_epi8(1), b_i8x32 = load_codes(b);
      positive_i16x16 = _mm256_maddubs_epi16(ones_u8x32, _mm256_max_epi8(b_i8x32, _mm256_setzero_si256()));
      negative_i16x16 = _mm256_sub_epi16(positive_i16x16, _mm256_maddubs_epi16(ones_u8x32, b_i8x32));
    }
    PairSums(const PairSums& a, const PairSums& b) noexcept
        : positive_i16x16(_mm256_add_epi16(a.positive_i16x16, b.positive_i16x16)),
          negative_i16x16(_mm256_add_epi16(a.negative_i16x16, b.negative_i16x16)) {}

    __m256i larger() const noexcept { return _mm256_max_epi16(positive_i16x16, negative_i16x16); }
    bool fit() const noexcept { return all_fit(larger()); }
  };
  static bool all_fit(__m256i larger_i16x16) noexcept {
    const __m256i exceeding_i16x16 = _mm256_cmpgt_epi16(larger_i16x16, _mm256_set1_epi16(128));
    return _mm256_testz_si256(exceeding_i16x16, exceeding_i16x16) != 0;
  }

  static bool is_without_splits(const GemmBlock& block, const std::uint8_t* panel) noexcept {
    for (std::size_t segment = 0; segment < block.segments; ++segment) {
      const std::uint8_t* b = panel + block.b_offsets[segment];
      for (const std::uint8_t* end = b + block.k * kNr; b != end; b += 4 * kNr) {
        if (!(PairSums(b).fit() && PairSums(b + 32).fit())) return false;
      }
    }
    return true;
  }

  static Step next_four(Step at) noexcept { return {at.a + 4, at.b + static_cast<std::uint32_t>(4 * kNr)}; }

  void take_eight(Step at, const std::uint8_t* b) noexcept {
    const PairSums first[2] = {PairSums(b), PairSums(b + 32)};
    const PairSums second[2] = {PairSums(b + 4 * kNr), PairSums(b + 4 * kNr + 32)};
    const bool fit_by_two =
        all_fit(_mm256_max_epi16(PairSums(first[0], second[0]).larger(), PairSums(first[1], second[1]).larger()));
    outer_[eights_] = at;
    eights_ += fit_by_two ? 1 : 0;
    if (fit_by_two) return;
    take_four(at, !all_fit(_mm256_max_epi16(first[0].larger(), first[1].larger())));
    take_four(next_four(at), !all_fit(_mm256_max_epi16(second[0].larger(), second[1].larger())));
  }

  void take_four(Step at, bool is_split) noexcept {
    if (is_split) {
      outer_[kMostSteps - ++splits_] = at;
    } else {
      inner_[fours_++] = at;
    }
  }

  void take_eights_as_fours() noexcept {
    for (std::size_t i = 0; i < eights_; ++i) {
      take_four(outer_[i], false);
      take_four(next_four(outer_[i]), false);
    }
    eights_ = 0;
  }

  // Eights from the beginning and splits from the end, which together are no more than steps; fours.
  Step outer_[kMostSteps], inner_[kMostSteps];
  std::size_t eights_, fours_, splits_;
};

// Adds steps of a panel, or of half of it, to the sums of a tile: by three operations for 32 products, five for 64 of
// eight k, six for 32 that are split, and nothing to widen. a is the first row's.
template <std::size_t rows, std::size_t halves>
class StepAdder {
 public:
  explicit StepAdder(std::size_t a_row_stride) noexcept
      : a_row_stride_(a_row_stride), ones_i16x16_(_mm256_set1_epi16(1)) {}

  __attribute__((always_inline)) void add_four(const std::uint8_t* a, const std::uint8_t* b,
                                               __m256i (&acc_i32x8)[rows][halves]) const noexcept {
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row) {
      const __m256i a_x32 = broadcast(a + row * a_row_stride_);
      hide(b);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        add(_mm256_maddubs_epi16(a_x32, load_codes(b + 32 * half)), acc_i32x8[row][half]);
      }
    }
  }

  __attribute__((always_inline)) void add_eight(const std::uint8_t* a, const std::uint8_t* b,
                                                __m256i (&acc_i32x8)[rows][halves]) const noexcept {
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t* of_row = a + row * a_row_stride_;
      const __m256i a0_x32 = broadcast(of_row), a1_x32 = broadcast(of_row + 4);
      hide(b);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        add(_mm256_add_epi16(_mm256_maddubs_epi16(a0_x32, load_codes(b + 32 * half)),
                             _mm256_maddubs_epi16(a1_x32, load_codes(b + 4 * kNr + 32 * half))),
            acc_i32x8[row][half]);
      }
    }
  }

  __attribute__((always_inline)) void add_split(const std::uint8_t* a, const std::uint8_t* b,
                                                __m256i (&acc_i32x8)[rows][halves]) const noexcept {
    const __m256i even_u8x32 = _mm256_set1_epi16(0xff);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i b_i8x32 = load_codes(b + 32 * half);
      const __m256i b_even_i8x32 = _mm256_and_si256(even_u8x32, b_i8x32);
      const __m256i b_odd_i8x32 = _mm256_andnot_si256(even_u8x32, b_i8x32);
#pragma GCC unroll 12
      for (std::size_t row = 0; row < rows; ++row) {
        const __m256i a_x32 = broadcast(a + row * a_row_stride_);
        add(_mm256_maddubs_epi16(a_x32, b_even_i8x32), acc_i32x8[row][half]);
        add(_mm256_maddubs_epi16(a_x32, b_odd_i8x32), acc_i32x8[row][half]);
      }
    }
  }

 private:
  void add(__m256i sums_i16x16, __m256i& acc_i32x8) const noexcept {
    acc_i32x8 = _mm256_add_epi32(acc_i32x8, _mm256_madd_epi16(sums_i16x16, ones_i16x16_));
  }
  // Keeps the compiler from holding b in registers, where all are the sums'.
  static void hide(const std::uint8_t*& b) noexcept {
    if constexpr (rows * halves > 10 && halves == 2) __asm__("" : "+r"(b));
  }

  std::size_t a_row_stride_;
  __m256i ones_i16x16_;
};

// So many tiles one below the other, of a run by a panel; the first is given.
template <std::size_t rows, std::size_t halves>
void multiply_ordered(const GemmBlock& block, Tile tile, std::size_t tiles, const PanelSteps& ordered) noexcept {
  RowStorage storage(block, tile);
  const StepAdder<rows, halves> adder(block.a_row_stride);
  for (; tiles != 0; --tiles, tile.a += rows * block.a_row_stride) {
    __m256i acc_i32x8[rows][halves];
    begin_sums(tile.offset, acc_i32x8);
    if (ordered.are_fours()) {
      for (std::size_t segment = 0; segment < block.segments; ++segment) {
        const std::uint8_t *a = tile.a + block.a_offsets[segment], *b = tile.b + block.b_offsets[segment];
        for (const std::uint8_t* end = b + block.k * kNr; b != end; a += 4, b += 4 * kNr) {
          adder.add_four(a, b, acc_i32x8);
        }
      }
    } else {
      for (const auto& at : ordered.eights()) adder.add_eight(tile.a + at.a, tile.b + at.b, acc_i32x8);
      for (const auto& at : ordered.fours()) adder.add_four(tile.a + at.a, tile.b + at.b, acc_i32x8);
      for (const auto& at : ordered.splits()) adder.add_split(tile.a + at.a, tile.b + at.b, acc_i32x8);
    }
    storage.store(acc_i32x8);
  }
}
