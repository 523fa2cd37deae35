// Products of filters of small codes for avx2.cpp, by vpmaddubsw.
// Included inside the unnamed namespace of that file, behind multiply_widened and avx2_clipped_terms.inl.h.

// Where the terms of a step are, from the beginning of a row of a and of a panel.
template <class Offset>
struct Place {
  Offset a, b;
};

// The steps of a panel of a single segment.
class StepsInSegment {
 public:
  StepsInSegment(std::size_t a_offset, std::size_t b_offset) noexcept : begin_{a_offset, b_offset} {}
  void take(const StepOrder& order) noexcept { order_ = order; }

  bool are_fours() const noexcept { return order_.are_fours(); }
  const StepRange& eights() const noexcept { return order_.eights; }
  const StepRange& fours() const noexcept { return order_.fours; }
  const StepRange& splits() const noexcept { return order_.splits; }
  Place<std::size_t> place(std::size_t step) const noexcept { return {begin_.a + 4 * step, begin_.b + 4 * kNr * step}; }

 private:
  Place<std::size_t> begin_;
  StepOrder order_ = {};
};

// The same of several, whose places many rows share.
class StepsInSegments {
 public:
  using Step = Place<std::uint32_t>;

  // Returns false where offsets are too large. More than kMostSteps are only taken as fours.
  bool find_places(const GemmBlock& block) noexcept {
    if (block.segments * block.k > 4 * kMostSteps) return true;
    Step* next = by_number_;
    for (std::size_t segment = 0; segment < block.segments; ++segment) {
      const std::size_t a = block.a_offsets[segment], b = block.b_offsets[segment];
      if (a + block.k > UINT32_MAX || b + block.k * kNr > UINT32_MAX) return false;
      Step at = {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)};
      for (const Step* end = next + block.k / 4; next != end; at.a += 4, at.b += 4 * kNr) *next++ = at;
    }
    return true;
  }
  void take(const StepOrder& order) noexcept {
    are_fours_ = order.are_fours();
    if (are_fours_) return;
    Step* next = in_order_;
    const StepRange* ranges[] = {&order.eights, &order.fours, &order.splits};
    for (std::size_t i = 0; i < 3; ++i) {
      first_[i] = next;
      for (const std::size_t step : *ranges[i]) *next++ = by_number_[step];
    }
    first_[3] = next;
  }

  struct Range {
    const Step *first, *last;
    const Step* begin() const noexcept { return first; }
    const Step* end() const noexcept { return last; }
  };
  bool are_fours() const noexcept { return are_fours_; }
  Range eights() const noexcept { return {first_[0], first_[1]}; }
  Range fours() const noexcept { return {first_[1], first_[2]}; }
  Range splits() const noexcept { return {first_[2], first_[3]}; }
  Step place(Step step) const noexcept { return step; }

 private:
  Step by_number_[kMostSteps], in_order_[kMostSteps];
  const Step* first_[4];
  bool are_fours_;
};

// So many tiles one below the other, of a run by a panel; the first is given.
template <std::size_t rows, std::size_t halves, class Steps>
void multiply_ordered(const GemmBlock& block, const Tile& first, std::size_t tiles, const Steps& steps) noexcept {
  RowStorage storage(block, first);
  const StepAdder<rows, halves> adder(block.a_row_stride);
  const std::uint8_t* row = first.a;
  for (; tiles != 0; --tiles, row += rows * block.a_row_stride) {
    __m256i acc_i32x8[rows][halves];
    begin_sums(first.offset, acc_i32x8);
    if (steps.are_fours()) {
      for (std::size_t segment = 0; segment < block.segments; ++segment) {
        const std::uint8_t *a = row + block.a_offsets[segment], *b = first.b + block.b_offsets[segment];
        for (const std::uint8_t* end = b + block.k * kNr; b != end; a += 4, b += 4 * kNr) {
          adder.add_four(a, b, acc_i32x8);
        }
      }
    } else {
      for (const auto step : steps.eights()) {
        const auto at = steps.place(step);
        adder.add_eight(row + at.a, first.b + at.b, acc_i32x8);
      }
      for (const auto step : steps.fours()) {
        const auto at = steps.place(step);
        adder.add_four(row + at.a, first.b + at.b, acc_i32x8);
      }
      for (const auto step : steps.splits()) {
        const auto at = steps.place(step);
        adder.add_split(row + at.a, first.b + at.b, acc_i32x8);
      }
    }
    storage.store(acc_i32x8);
  }
}

// Rows of a tile: of half a panel twice as many.
template <std::size_t halves>
constexpr std::size_t kMostRows = halves == 2 ? kMr : 2 * kMr;

template <class Steps, std::size_t halves>
struct TilesFunctions {
  void (*of_rows[kMostRows<halves>])(const GemmBlock& block, const Tile& first, std::size_t tiles,
                                     const Steps& steps) noexcept;
};
template <class Steps, std::size_t halves, std::size_t... index>
constexpr TilesFunctions<Steps, halves> tiles_functions(std::index_sequence<index...>) noexcept {
  return {{multiply_ordered<index + 1, halves, Steps>...}};
}
template <class Steps, std::size_t halves>
constexpr TilesFunctions<Steps, halves> kTilesFunctions =
    tiles_functions<Steps, halves>(std::make_index_sequence<kMostRows<halves>>());

// All rows by the panel at a column, in the parts of a run.
template <std::size_t halves, class Steps>
inline void multiply_panel_in_order(const GemmBlock& block, const Parts& parts, std::size_t panel,
                                    const Steps& steps) noexcept {
  for (std::size_t run = 0; run < block.runs; ++run) {
    const auto multiply_parts = [&](std::size_t first, std::size_t count) noexcept {
      if (count == 0) return;
      const std::size_t rows = parts.rows_of(first);
      const Tile tile = tile_of(block, kNr, panel, run, parts.first_row(first), rows);
      kTilesFunctions<Steps, halves>.of_rows[rows - 1](block, tile, count, steps);
    };
    multiply_parts(0, parts.longer);
    multiply_parts(parts.longer, parts.count - parts.longer);
  }
}

// Whether a block's rows are multiplied faster by a panel's steps in order than by widening all terms: few of them
// share what the loops of each panel cost, and what a split makes of b.
bool pays_in_order(const GemmBlock& block, const StepOrder& order) noexcept {
  const std::size_t rows = block.runs * block.m, terms = block.segments * block.k;
  if (order.is_empty() || rows >= kManyRows) return !order.is_empty();
  return order.splits.count() == 0 || (rows > 2 && terms >= 2 * kLeastTerms);
}

// Multiplies by the order of steps that b's panels have, or that is looked for: filters are much the same throughout,
// so that a panel whose terms had better be widened ends the look at those beside it.
template <class Steps>
void multiply_in_order(const GemmBlock& block, const std::uint16_t* b_order, Steps& steps) noexcept {
  const std::size_t columns = panels_at_once(block) * kNr;
  const Parts parts(block.m, kMostRows<2>), parts_of_half(block.m, kMostRows<1>);
  PanelSteps found;
  std::size_t paying = SIZE_MAX;  // tiles from the first on whose activations are worth clipping
  for (std::size_t first = 0; first < block.n; first += columns) {
    const std::size_t end = block.n - first < columns ? block.n : first + columns;
    std::size_t waiting = first;  // panels from here on to before the next have yet to be multiplied, row by row
    bool are_clipped = false;     // in this way, or else widened
    const auto multiply_waiting = [&](std::size_t before) noexcept {
      if (waiting == before) return;
      are_clipped ? multiply_clipped(block, b_order, waiting, before, paying)
                  : multiply_widened(block, waiting, before);
      waiting = before;
    };
    for (std::size_t panel = first; panel < end; panel += kNr) {
      const StepOrder order = b_order != nullptr ? kept_order(b_order + panel / kNr * block.b_order_stride)
                                                 : found.order(block.b + panel / kNr * block.b_panel_stride,
                                                               block.b_offsets, block.segments, block.k);
      if (order.is_of_clipped || !pays_in_order(block, order)) {
        if (b_order == nullptr) break;
        const bool is_clipped = order.is_of_clipped && block.runs * block.m > 2;  // fewer wait for b, not for sums
        if (are_clipped != is_clipped) multiply_waiting(panel);
        are_clipped = is_clipped;
        continue;
      }
      multiply_waiting(panel);
      waiting = panel + kNr;
      steps.take(order);
      block.n - panel > 8 ? multiply_panel_in_order<2>(block, parts, panel, steps)
                          : multiply_panel_in_order<1>(block, parts_of_half, panel, steps);
    }
    if (waiting < end) multiply_waiting(end);
  }
}

void multiply_segments_in_order(const GemmBlock& block, const std::uint16_t* b_order) noexcept {
  StepsInSegments steps;
  steps.find_places(block) ? multiply_in_order(block, b_order, steps) : multiply_all_widened(block);
}
