// How the AMX kernel makes codes of sums, some rows at a time beside the products of the next.
// Included inside the unnamed namespace of a kernel file, after amx_order.inl.h and requantize_avx512_vnni.inl.h.
//
// Only what most networks need is finished beside products. The rest (int32 results, multipliers of 1 and more, very
// long activation sums) is finished all at once, when the products of the next area are made.

// The rows of some parts that are results: from which element of their sums they come, and to which of the output they
// go, from a column on. What lies between runs is left out, but never all of a part: it is shorter. Behind the last row
// it is repeated three times, for rows to be taken four at a time.
class Rows {
 public:
  std::size_t count() const noexcept { return count_; }
  const std::size_t* from() const noexcept { return from_; }
  const std::size_t* to() const noexcept { return to_; }
  const std::int32_t* activation_sums() const noexcept { return activation_sums_; }

  // Null where one is too long for them.
  const std::int32_t* activation_factors() const noexcept { return has_factors_ ? activation_factors_ : nullptr; }

  void clear() noexcept { count_ = 0; }

  // The rows of a part that are of one run.
  void add(const GemmBlock& block, const Cut::Stretch& stretch, std::size_t from) noexcept {
    const __m512i lane_u64x8 = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const auto every = [&](std::size_t stride) { return _mm512_mullo_epi64(lane_u64x8, all(stride)); };
    const __m512i from_u64x8 = every(kColumns), to_u64x8 = every(block.output_row_stride);
    std::size_t to = stretch.run * block.output_run_stride + stretch.row * block.output_row_stride;
    for (std::size_t row = 0; row < stretch.rows; row += kLanes) {
      _mm512_storeu_si512(from_ + count_ + row, _mm512_add_epi64(all(from), from_u64x8));
      _mm512_storeu_si512(to_ + count_ + row, _mm512_add_epi64(all(to), to_u64x8));
      from += kLanes * kColumns;
      to += kLanes * block.output_row_stride;
    }
    if (block.filter_zero_point != nullptr) {
      const __mmask16 mask = lane_mask(stretch.rows);
      const std::int32_t* sums = block.activation_sum + stretch.run * block.m + stretch.row;
      _mm512_mask_storeu_epi32(activation_sums_ + count_, mask, _mm512_maskz_loadu_epi32(mask, sums));
    }
    count_ += stretch.rows;
  }

  // After the last row, of which there is one at least.
  void end(const GemmBlock& block) noexcept {
    _mm512_storeu_si512(from_ + count_, all(from_[count_ - 1]));
    _mm512_storeu_si512(to_ + count_, all(to_[count_ - 1]));
    if (block.filter_zero_point == nullptr) return;
    _mm512_storeu_si512(activation_sums_ + count_, _mm512_set1_epi32(activation_sums_[count_ - 1]));
    factor_activation_sums();
  }

 private:
  static constexpr std::size_t kMost = kMostParts * kTileRows, kLanes = 8, kRepeated = 3;

  static __m512i all(std::size_t value) noexcept { return _mm512_set1_epi64(static_cast<long long>(value)); }

  void factor_activation_sums() noexcept {
    has_factors_ = true;
    const std::size_t end = count_ + kRepeated;
    for (std::size_t row = 0; row < end; row += 16) {
      const __m512i sum_u32x16 = _mm512_maskz_loadu_epi32(lane_mask(end - row), activation_sums_ + row);
      has_factors_ &= _mm512_cmpgt_epu32_mask(sum_u32x16, _mm512_set1_epi32(kLongestFactoredSum)) == 0;
      _mm512_store_si512(activation_factors_ + row, factors_of_negative(sum_u32x16));
    }
  }

  std::size_t count_;
  std::size_t from_[kMost + kLanes], to_[kMost + kLanes];
  std::int32_t activation_sums_[kMost + 16];  // where the filter has zero points
  alignas(64) std::int32_t activation_factors_[kMost + 16];
  bool has_factors_;
};

// The sums of some rows by one panel of b or two.
struct Area {
  const Rows* rows;
  const std::int32_t* sums;
  std::size_t panel, columns;

  bool has_second_panel() const noexcept { return columns > kNr; }
};

// An area whose sums stand in a buffer and wait to become codes. Most do so beside the products (see Finisher): codes
// of multipliers that need no bound and activation sums that have factors.
class Unfinished {
 public:
  explicit Unfinished(const GemmBlock& block) noexcept : block_(block) {}

  void begin(const Area& area) noexcept {
    area_ = area;
    row_ = simple_rows_ = 0;
    if (block_.sums != nullptr) return;
    Tile tile = tile_of(block_, kNr, area.panel, 0, 0, 0);
    tile.columns = area.columns;
    requantizer_ = Requantizer(block_, tile);
    const bool has_factors = block_.filter_zero_point == nullptr || area.rows->activation_factors() != nullptr;
    if (has_factors && converts_within_range(tile)) simple_rows_ = area.rows->count();
  }

  // After all rows have been finished.
  void end() noexcept {
    area_.rows = nullptr;
    simple_rows_ = row_ = 0;
  }

  // Whether hardly any rows are left for products to be made beside, of those that can be.
  bool is_nearly_finished() const noexcept { return simple_rows_ != 0 && simple_rows_ - row_ < 8; }

  // All rows, if they are not simple.
  void finish_others() noexcept {
    if (area_.rows == nullptr || simple_rows_ != 0) return;
    if (block_.filter_zero_point == nullptr) {
      area_.has_second_panel() ? finish<2, false>() : finish<1, false>();
    } else {
      area_.has_second_panel() ? finish<2, true>() : finish<1, true>();
    }
  }

 private:
  friend class Finisher;

  template <std::size_t panels, bool has_zero_points>
  __attribute__((noinline)) void finish() const noexcept {
    if (block_.sums != nullptr) {
      finish_sums<panels, has_zero_points>();
    } else {
      finish_codes<panels, has_zero_points>();
    }
  }

  template <std::size_t panels, bool has_zero_points>
  void finish_sums() const noexcept {
    for (std::size_t row = 0; row < area_.rows->count(); ++row) {
      std::int32_t* sums = block_.sums + area_.panel + area_.rows->to()[row];
      store_sums<0>(block_, area_.columns, sums, sum<0, has_zero_points>(row));
      if constexpr (panels == 2) store_sums<1>(block_, area_.columns, sums, sum<1, has_zero_points>(row));
    }
  }

  template <std::size_t panels, bool has_zero_points>
  void finish_codes() const noexcept {
    for (std::size_t row = 0; row < area_.rows->count(); row += 4 / panels) {
      const auto output = [&](std::size_t i) { return block_.output + area_.panel + area_.rows->to()[row + i]; };
      const auto first = [&](std::size_t i) { return sum<0, has_zero_points>(row + i); };
      if constexpr (panels == 2) {
        const auto second = [&](std::size_t i) { return sum<1, has_zero_points>(row + i); };
        requantizer_.store_pair<false>(output(0), output(1), first(0), second(0), first(1), second(1));
      } else {
        requantizer_.store_narrow<false>(4, output, first(0), first(1), first(2), first(3));
      }
    }
  }

  template <std::size_t panel, bool has_zero_points>
  __m512i sum(std::size_t row) const noexcept {
    const __m512i sum_i32x16 = _mm512_load_si512(area_.sums + area_.rows->from()[row] + kNr * panel);
    if constexpr (!has_zero_points) return sum_i32x16;
    const __m512i zero_point_i32x16 = _mm512_loadu_si512(block_.filter_zero_point + area_.panel + kNr * panel);
    const __m512i activation_i32x16 = _mm512_set1_epi32(area_.rows->activation_sums()[row]);
    return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(zero_point_i32x16, activation_i32x16));
  }

  const GemmBlock& block_;
  Area area_ = {};
  Requantizer requantizer_;
  std::size_t row_ = 0, simple_rows_ = 0;
};

// The simple rows of an area while products run, 64 codes at a time: two rows of two panels, or four of one. All is in
// registers and nothing is called. Few are taken at a time, for what waits for the vector unit holds up the loads
// behind.
class Finisher {
 public:
  __attribute__((always_inline)) explicit Finisher(const Unfinished& unfinished) noexcept
      : requantizer_(unfinished.requantizer_),
        rows_at_once_(unfinished.area_.has_second_panel() ? 2 : 4),
        left_(unfinished.simple_rows_ - unfinished.row_) {
    if (left_ == 0) return;
    const GemmBlock& block = unfinished.block_;
    const Area& area = unfinished.area_;
    sums_ = area.sums;
    output_ = block.output + area.panel;
    from_ = area.rows->from() + unfinished.row_;
    to_ = area.rows->to() + unfinished.row_;
    if (block.filter_zero_point == nullptr) return;
    const std::int32_t* zero_point = block.filter_zero_point + area.panel;
    first_factors_i16x32_ = filter_factors(zero_point);
    second_factors_i16x32_ = filter_factors(zero_point + (rows_at_once_ == 2 ? kNr : 0));
    activation_factors_ = area.rows->activation_factors() + unfinished.row_;
  }

  // 64 codes or, if `twice`, 128; none where fewer than these are left, which is for finish_all.
  __attribute__((always_inline)) void finish_some(bool twice) noexcept {
    if (left_ < 2 * rows_at_once_) return;
    finish_64();
    if (twice) finish_64();
  }

  __attribute__((always_inline)) void finish_all() noexcept {
    while (left_ != 0) finish_64();
  }

  void save_to(Unfinished& unfinished) const noexcept { unfinished.row_ = unfinished.simple_rows_ - left_; }

 private:
  __attribute__((always_inline)) void finish_64() noexcept {
    rows_at_once_ == 2 ? finish_wide() : finish_narrow();
    from_ += rows_at_once_;
    to_ += rows_at_once_;
    left_ -= left_ < rows_at_once_ ? left_ : rows_at_once_;
  }

  __attribute__((always_inline)) void finish_wide() noexcept {
    const std::int32_t *first = sums_ + from_[0], *second = sums_ + from_[1];
    __m512i a0_i32x16 = _mm512_load_si512(first), a1_i32x16 = _mm512_load_si512(first + kNr);
    __m512i b0_i32x16 = _mm512_load_si512(second), b1_i32x16 = _mm512_load_si512(second + kNr);
    if (activation_factors_ != nullptr) {
      const __m512i a_i16x32 = factors(0), b_i16x32 = factors(1);
      a0_i32x16 = _mm512_dpwssd_epi32(a0_i32x16, first_factors_i16x32_, a_i16x32);
      a1_i32x16 = _mm512_dpwssd_epi32(a1_i32x16, second_factors_i16x32_, a_i16x32);
      b0_i32x16 = _mm512_dpwssd_epi32(b0_i32x16, first_factors_i16x32_, b_i16x32);
      b1_i32x16 = _mm512_dpwssd_epi32(b1_i32x16, second_factors_i16x32_, b_i16x32);
      activation_factors_ += 2;
    }
    requantizer_.store_pair<true>(output_ + to_[0], output_ + to_[1], a0_i32x16, a1_i32x16, b0_i32x16, b1_i32x16);
  }

  __attribute__((always_inline)) void finish_narrow() noexcept {
    __m512i sum_i32x16[4];
    for (std::size_t row = 0; row < 4; ++row) sum_i32x16[row] = _mm512_load_si512(sums_ + from_[row]);
    if (activation_factors_ != nullptr) {
      for (std::size_t row = 0; row < 4; ++row) {
        sum_i32x16[row] = _mm512_dpwssd_epi32(sum_i32x16[row], first_factors_i16x32_, factors(row));
      }
      activation_factors_ += 4;
    }
    const auto output = [&](std::size_t row) __attribute__((always_inline)) { return output_ + to_[row]; };
    requantizer_.store_narrow<true>(4, output, sum_i32x16[0], sum_i32x16[1], sum_i32x16[2], sum_i32x16[3]);
  }

  __m512i factors(std::size_t row) const noexcept { return _mm512_set1_epi32(activation_factors_[row]); }

  Requantizer requantizer_;
  std::size_t rows_at_once_, left_;
  const std::int32_t* sums_ = nullptr;
  std::uint8_t* output_ = nullptr;
  const std::size_t *from_ = nullptr, *to_ = nullptr;
  const std::int32_t* activation_factors_ = nullptr;
  __m512i first_factors_i16x32_ = {}, second_factors_i16x32_ = {};
};
