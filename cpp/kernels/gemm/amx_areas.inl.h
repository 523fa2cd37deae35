// The areas of an AMX product that are not codes yet, and the rows of these.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles and
// requantize_avx512_vnni.inl.h.

// What the zero points of filters take off a row's sums is a product of its term and a column's: the activation sum and
// the zero point, in products of planes the other way round. vpdpwssd takes both as factors.
enum class RowTerms { as_they_are, factored_sums, factored_zero_points };

// The rows of a group that are results, one after the other: at which element of an area's sums a row begins, at which
// place of the output, from a column on, what its term is, and its multiplier in products of planes. Where all are at
// regular distances, only the first is written down until somebody asks for the list. Behind the last one of a list it
// stands again: whole areas are finished without looking how many there are, others four rows at a time.
class ResultRows {
 public:
  static constexpr std::size_t kMost = kMostParts * kTileRows, kRowsOfSquare = 2 * kTileRows;

  // From a row to the next.
  struct Steps {
    alignas(64) std::size_t places[8];  // from the first row to eight
    alignas(64) std::uint32_t sums[16];

    Steps(std::size_t place, std::size_t sum) noexcept {
      for (std::size_t row = 0; row < 8; ++row) places[row] = row * place;
      for (std::size_t row = 0; row < 16; ++row) sums[row] = static_cast<std::uint32_t>(row * sum);
    }
  };

  // Rows whose sums and places are at a regular distance, and their terms and multipliers neighbours.
  struct Stretch {
    std::size_t rows, sums, place;
    const std::int32_t* terms;  // may be null, as multipliers
    const float* multipliers;

    bool goes_on_at(std::size_t next_sums, std::size_t next_place, const Steps& steps) const noexcept {
      return rows != 0 && next_sums == sums + rows * steps.sums[1] && next_place == place + rows * steps.places[1];
    }
  };

  void clear() noexcept {
    count_ = 0;
    is_complete_ = false;
  }

  void add(const Stretch& stretch, const Steps& steps, RowTerms terms) noexcept {
    if (stretch.rows == 0) return;
    if (stretch.terms != nullptr) add_terms(stretch, terms);
    if (stretch.multipliers != nullptr) add_multipliers(stretch);
    if (count_ == 0) {
      steps_ = &steps;
      first_ = stretch;
    } else {
      if (are_regular()) write_first();
      write(stretch);
    }
    count_ += stretch.rows;
  }

  // There is a row: what lies between two runs that are cut as one is shorter than a group, and the last part ends with
  // the last row.
  void list() noexcept {
    if (is_complete_) return;
    is_complete_ = true;
    if (are_regular()) write_first();
    for (std::size_t row = count_; row < kRowsOfSquare || row % 4 != 0; ++row) {
      sums_[row] = sums_[count_ - 1];
      terms_[row] = terms_[count_ - 1];
      if (first_.multipliers != nullptr) multipliers_[row] = multipliers_[count_ - 1];
      place_[row] = place_[count_ - 1];
    }
  }

  std::size_t count() const noexcept { return count_; }
  bool are_regular() const noexcept { return count_ == first_.rows; }
  bool are_regular_square() const noexcept { return are_regular() && count_ == kRowsOfSquare; }
  const Stretch& first() const noexcept { return first_; }

  // The list. Terms and multipliers are in it without being asked for.
  const std::uint32_t* sums() const noexcept { return sums_; }
  const std::size_t* places() const noexcept { return place_; }
  const std::int32_t* terms() const noexcept { return terms_; }
  const float* multipliers() const noexcept { return multipliers_; }

 private:
  void write_first() noexcept {
    const std::size_t count = count_;
    count_ = 0;
    write(first_);
    count_ = count;
  }

  void write(const Stretch& stretch) noexcept {
    const __m512i first_place_u64x8 = _mm512_load_si512(steps_->places);
    for (std::size_t row = 0; row < stretch.rows; row += 8) {
      const __m512i from_u64x8 = _mm512_set1_epi64(static_cast<long long>(stretch.place + row * steps_->places[1]));
      _mm512_storeu_si512(place_ + count_ + row, _mm512_add_epi64(from_u64x8, first_place_u64x8));
    }
    const __m512i first_sum_u32x16 = _mm512_load_si512(steps_->sums);
    for (std::size_t row = 0; row < stretch.rows; row += 16) {
      const __m512i from_u32x16 = _mm512_set1_epi32(static_cast<int>(stretch.sums + row * steps_->sums[1]));
      _mm512_storeu_si512(sums_ + count_ + row, _mm512_add_epi32(from_u32x16, first_sum_u32x16));
    }
  }

  void add_terms(const Stretch& stretch, RowTerms terms) noexcept {
    for (std::size_t row = 0; row < stretch.rows; row += 16) {
      const __m512i terms_i32x16 = _mm512_maskz_loadu_epi32(lane_mask(stretch.rows - row), stretch.terms + row);
      _mm512_storeu_si512(terms_ + count_ + row, terms == RowTerms::factored_sums ? factors_of_negative(terms_i32x16)
                                                 : terms == RowTerms::factored_zero_points
                                                     ? filter_factors(terms_i32x16)
                                                     : terms_i32x16);
    }
  }

  void add_multipliers(const Stretch& stretch) noexcept {
    for (std::size_t row = 0; row < stretch.rows; row += 16) {
      const __mmask16 of_rows = lane_mask(stretch.rows - row);
      _mm512_storeu_ps(multipliers_ + count_ + row, _mm512_maskz_loadu_ps(of_rows, stretch.multipliers + row));
    }
  }

  std::size_t count_ = 0;
  bool is_complete_ = false;  // the list, with what stands behind it
  const Steps* steps_ = nullptr;
  Stretch first_ = {};
  alignas(64) std::uint32_t sums_[kMost + 16];  // stretches are written in whole vectors
  alignas(64) std::int32_t terms_[kMost + 16];
  alignas(64) float multipliers_[kMost + 16];
  alignas(64) std::size_t place_[kMost + 8];
};

// The sums of a group of rows by one or two panels of b, until they are codes. They leave the accumulators one by one,
// each right before its next sums begin: stored at once, they would be waited for, and the loads of the next products
// with them.
class WaitingArea {
 public:
  WaitingArea(std::int32_t* sums, std::size_t row_sums) noexcept : sums_(sums), row_sums_(row_sums) {}

  // A group of rows by panels from `panel` on, of so many columns.
  void take(ResultRows& group_rows, std::size_t parts, std::size_t of_panel, std::size_t of_columns) noexcept {
    rows = &group_rows;
    panel = of_panel;
    columns = of_columns;
    const std::size_t panels = columns > kNr ? 2 : 1;
    if (parts != parts_ || panels != panels_) use_tiles(parts, panels);
  }

  bool is_whole() const noexcept { return columns == kSquare.columns(); }
  std::int32_t* sums() const noexcept { return sums_; }
  std::size_t row_sums() const noexcept { return row_sums_; }  // elements from a row of them to the next

  // Instructions name their tiles, so that no function can be told them.
  __attribute__((always_inline)) void store_0() const noexcept {
    if (of_tile_[0] != nullptr) _tile_stored(0, of_tile_[0], row_sums_ * sizeof(std::int32_t));
  }
  __attribute__((always_inline)) void store_1() const noexcept {
    if (of_tile_[1] != nullptr) _tile_stored(1, of_tile_[1], row_sums_ * sizeof(std::int32_t));
  }
  __attribute__((always_inline)) void store_2() const noexcept {
    if (of_tile_[2] != nullptr) _tile_stored(2, of_tile_[2], row_sums_ * sizeof(std::int32_t));
  }
  __attribute__((always_inline)) void store_3() const noexcept {
    if (of_tile_[3] != nullptr) _tile_stored(3, of_tile_[3], row_sums_ * sizeof(std::int32_t));
  }
  void store_all() const noexcept {
    store_0();
    store_1();
    store_2();
    store_3();
  }

  std::size_t panel = 0, columns = 0;  // no columns: nothing waits
  ResultRows* rows = nullptr;

 private:
  // Two parts have accumulators 0 and 1, and 2 and 3 by a second panel; more parts one each.
  void use_tiles(std::size_t parts, std::size_t panels) noexcept {
    parts_ = parts;
    panels_ = panels;
    const std::size_t part_sums = kTileRows * row_sums_;
    const bool is_tall = parts > kSquare.parts;
    for (std::size_t tile = 0; tile < 4; ++tile) {
      const std::size_t part = is_tall ? tile : tile / 2, of_panel = is_tall ? 0 : tile % 2;
      of_tile_[tile] = part < parts && of_panel < panels ? sums_ + part * part_sums + of_panel * kNr : nullptr;
    }
  }

  std::int32_t* sums_;
  std::size_t row_sums_;
  std::size_t parts_ = 0, panels_ = 0;
  std::int32_t* of_tile_[4] = {};  // where its sums go; null where it has none
};

// The two areas that are not codes yet, each with its own place for sums. Where none is stored while the next ones are
// multiplied, that in the tiles is the only one.
class WaitingAreas {
 public:
  WaitingAreas(std::int32_t* sums, std::int32_t* other_sums, std::size_t row_sums) noexcept
      : areas_{{sums, row_sums}, {other_sums, row_sums}} {}

  WaitingArea& stored() noexcept { return areas_[newest_ ^ 1]; }
  WaitingArea& in_tiles() noexcept { return areas_[newest_]; }

  // The next area has been multiplied, and the one that was stored is codes.
  WaitingArea& pass() noexcept {
    newest_ ^= 1;
    return areas_[newest_];
  }

 private:
  std::size_t newest_ = 0;
  WaitingArea areas_[2];
};
