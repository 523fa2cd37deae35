// How the AMX kernel cuts the rows of a block into parts for its tiles, and in which order it multiplies them.
// Included inside the unnamed namespace of a kernel file, after block_tiles.inl.h and constants of the tiles.

// Rows as tiles take them: `rows` from a position in a run on, of which the first `done` belong to the part before.
struct Part {
  std::size_t run, position, done;
};

// A number of rows in equal parts, the last of which begins early enough to have as many.
struct EqualParts {
  std::size_t count, rows;

  // Four products of fewer than 12 rows take as long as the first needs until it can be added to.
  std::size_t cycles() const noexcept { return count * (rows < 12 ? 12 : rows); }
};

// Those that take the fewest cycles.
EqualParts cut(std::size_t length) noexcept {
  const std::size_t fewest = (length + kTileRows - 1) / kTileRows;
  EqualParts best = {fewest, (length + fewest - 1) / fewest};
  for (std::size_t count = fewest + 1; count <= fewest + 2; ++count) {
    const EqualParts parts = {count, (length + count - 1) / count};
    if (parts.cycles() < best.cycles() && (count - 1) * parts.rows < length) best = parts;
  }
  return best;
}

// How the rows of a block are cut into parts. Short runs at a regular distance, as those of an image in a padded one,
// are cut as if they were a single run: what lies between them is multiplied, too, and left behind.
//
//   runs of 7, 9 apart     0123456--0123456--0123456--0123456--0123456--0123456--0123456
//   parts of 16 positions  (              )(              )(              )
//                                                                       (              )
class Cut {
 public:
  explicit Cut(const GemmBlock& block) noexcept
      : length_(block.m), runs_(block.runs), m_(block.m), parts_(cut(block.m)) {
    if (runs_ < 2 || block.a_row_stride == 0 || block.a_run_stride % block.a_row_stride != 0) return;
    const std::size_t distance = block.a_run_stride / block.a_row_stride;
    if (distance < m_ || distance > 2 * m_) return;
    const std::size_t length = (runs_ - 1) * distance + m_;
    const EqualParts of_all = cut(length);
    if (of_all.cycles() >= runs_ * parts_.cycles()) return;
    length_ = length;
    distance_ = distance;
    runs_ = 1;
    parts_ = of_all;
  }

  std::size_t count() const noexcept { return runs_ * parts_.count; }
  std::size_t rows() const noexcept { return parts_.rows; }
  std::size_t parts_of_run() const noexcept { return parts_.count; }

  Part part(std::size_t index) const noexcept {
    const std::size_t first = index % parts_.count * parts_.rows, last = length_ - parts_.rows;
    return {index / parts_.count, first < last ? first : last, first < last ? 0 : first - last};
  }

  // The rows of a part from `done` on that are of one run, and what is done after them.
  struct Stretch {
    std::size_t run, row, rows, done;
  };
  Stretch stretch(const Part& part, std::size_t done) const noexcept {
    const std::size_t position = part.position + done;
    if (distance_ == SIZE_MAX) return {part.run, position, parts_.rows - done, parts_.rows};
    const std::size_t row = position % distance_;
    const std::size_t left = parts_.rows - done;
    if (row >= m_) return {0, 0, 0, done + distance_ - row};
    const std::size_t rows = left < m_ - row ? left : m_ - row;
    return {part.run + position / distance_, row, rows, done + rows};
  }

 private:
  std::size_t length_, runs_;        // as they are cut
  std::size_t m_;                    // rows of a run of the operands
  std::size_t distance_ = SIZE_MAX;  // from a run of the operands to the next, where all are cut as one
  EqualParts parts_;
};

// The operand that comes from L2 for use at once: its lines are not to push those of the other out of L1.
enum class Streamed : std::uint8_t { none, a, b };

// Terms of a product: of some segments those from the first on.
struct Terms {
  const std::size_t *a_offsets, *b_offsets;  // of the segments
  std::size_t segments, first, k;
};

// Calls multiply(terms, is_first) for ranges of at most so many terms, about equal ones of a segment: whole steps.
template <class Function>
void for_each_range(const GemmBlock& block, std::size_t most, Function multiply) noexcept {
  const std::size_t of_range = most < block.k ? 1 : most / block.k;  // segments
  const std::size_t steps = block.k / kKr, pieces = (block.k + most - 1) / most;
  for (std::size_t segment = 0; segment < block.segments; segment += of_range) {
    const std::size_t left = block.segments - segment, segments = left < of_range ? left : of_range;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t first = steps * piece / pieces * kKr, end = steps * (piece + 1) / pieces * kKr;
      multiply(Terms{block.a_offsets + segment, block.b_offsets + segment, segments, first, end - first},
               segment + piece == 0);
    }
  }
}

// In which order the areas of a block are multiplied: some columns after the others, by all parts in groups, all terms
// of an area at a time. Where not even the rows of two parts stay in L1, by ranges of k:
//
//                  k 0-255   256-511  ...
//   64 rows of a  [       ] [       ]        pass by once for
//   64 columns    [       ] [       ]        a range of b, which stays in L1,
//                                            as their 4 x 4 tiles of sums do for all of k:
//                                            8 tiles come from L2 for 16 products
struct Order {
  std::size_t parts;  // of a group
  std::size_t columns;
  Streamed streamed;
  bool by_ranges = false;
};

constexpr std::size_t kRangeTerms = 256, kRangeColumns = 2 * kColumns;

// L1, columns of the filter in the 2 MiB of L2, and what is in L1 beside the operands: two areas of sums by as many
// parts, and lines of the output.
constexpr double kLevel1Bytes = 49152.0, kLevel2Bytes = 524288.0;

constexpr double room_beside_sums(std::size_t parts) noexcept {
  return kLevel1Bytes - 2.0 * static_cast<double>(parts * kTileRows * kColumns * 4) - 4096.0;
}

// Bytes of L1 that some neighbouring parts take; windows may overlap. Rows that are apart may leave sets of it unused:
// of rows 1024 bytes apart that read 512 only half of the 64 sets have lines.
double bytes_of_parts(const GemmBlock& block, const Cut& cut, std::size_t parts) noexcept {
  const auto number = [](std::size_t value) { return static_cast<double>(value); };
  std::size_t last_offset = 0;
  for (std::size_t i = 0; i < block.segments; ++i) {
    if (block.a_offsets[i] > last_offset) last_offset = block.a_offsets[i];
  }
  const std::size_t of_run = cut.parts_of_run(), runs = (parts + of_run - 1) / of_run;
  const double extent = number(runs - 1) * number(block.a_run_stride) +
                        number((parts < of_run ? parts : of_run) * cut.rows()) * number(block.a_row_stride) +
                        number(last_offset + block.k);
  const double apart = number(parts * cut.rows()) * number(block.segments * block.k);
  if (extent < apart) return extent;
  const std::size_t lines = block.a_row_stride / 64, period = lines == 0 ? 1 : (lines & (~lines + 1));
  return block.k / 64 < period && period <= 64 && block.a_row_stride % 64 == 0
             ? apart * number(period) / number(block.k / 64)
             : apart;
}

// The order that takes the fewest cycles, by an estimate of the bytes that come from L2.
class Orders {
 public:
  Orders(const GemmBlock& block, const Cut& cut) noexcept
      : block_(block),
        cut_(cut),
        parts_(number(cut.count())),
        k_(number(block.segments * block.k)),
        panels_(number((block.n + kNr - 1) / kNr)),
        a_(parts_ * number(cut.rows()) * k_),
        b_(k_ * panels_ * number(kNr)),
        output_(number(block.runs * block.m) * number(block.n)),
        // Lines that are streamed are not there for the next step of k where rows cross them.
        crosses_lines_((reinterpret_cast<std::uintptr_t>(block.a) | block.a_row_stride | block.a_run_stride) % 64 != 0),
        all_(bytes_of_parts(block, cut, cut.count())) {}

  Order best() noexcept {
    if (all_ + b_ <= room_beside_sums(2)) return {block_.n <= kNr ? kMostParts : 2, block_.n, Streamed::none};
    try_panels();
    try_parts(2);
    try_parts(4);
    if (block_.n > kColumns && k_ > number(kRangeTerms)) try_ranges();
    return best_;
  }

 private:
  static constexpr double kPassing = 0.75;

  static double number(std::size_t value) noexcept { return static_cast<double>(value); }

  static double rounded_up(double value) noexcept { return number(static_cast<std::size_t>(value + 0.999)); }

  // Each area costs some cycles beside its products: at first they wait for each other.
  void take(const Order& order, double bytes, double areas) noexcept {
    constexpr double kBytesOfCycle = 32.0, kAreaCycles = 20.0;
    const double rows = number(cut_.rows() < 13 ? 13 : cut_.rows());
    const double products = parts_ * rows * panels_ * k_ / number(kKr), fetching = (bytes + output_) / kBytesOfCycle;
    const double longer = products > fetching ? products : fetching, shorter = products + fetching - longer;
    // Not all of what is shorter hides behind the other.
    const double cycles = longer + shorter / 4.0 + areas * kAreaCycles;
    if (cycles >= fewest_) return;
    fewest_ = cycles;
    best_ = order;
  }

  // What is fetched again of an operand that is to stay, each time that the other passes by.
  static double overflow(double stays, double room) noexcept {
    const double share = (stays - room) / room;
    return share <= 0.0 ? 0.0 : stays * (share < 1.0 ? share : 1.0);
  }

  // A pair of panels stays, and all parts as well or passing by. Half of the output's lines is written at a time.
  void try_panels() noexcept {
    const double panel = k_ * number(kColumns), pairs = rounded_up(panels_ / 2.0), groups = rounded_up(parts_ / 2.0);
    const double room = room_beside_sums(2), lines = number(block_.runs * block_.m) * 64.0;
    if (all_ + panel <= kLevel1Bytes) {
      take({2, kColumns, Streamed::none}, all_ + b_ + output_ + overflow(all_ + panel + lines, room) * (pairs - 1.0),
           groups * pairs);
    }
    take({2, kColumns, Streamed::a},
         a_ * pairs * (crosses_lines_ ? 2.0 : 1.0) + b_ + output_ + overflow(panel, room) * (groups - 1.0) * pairs,
         groups * pairs);
  }

  // Some parts stay, and the filter passes by, or as many columns of it as stay in L2.
  void try_parts(std::size_t parts) noexcept {
    const double room = room_beside_sums(parts), panel = k_ * number(kColumns);
    const double stays = bytes_of_parts(block_, cut_, parts < cut_.count() ? parts : cut_.count());
    const bool both_stay = stays + b_ <= room;
    const double pairs = kLevel2Bytes / panel < 1.0 ? 1.0 : kLevel2Bytes / panel;
    const std::size_t columns = b_ <= 2.0 * kLevel2Bytes ? block_.n : static_cast<std::size_t>(pairs) * kColumns;
    const double groups = rounded_up(parts_ / number(parts));
    const double passes = parts == 2 ? panels_ / 2.0 : panels_;
    // What passes by may take room nevertheless. Windows that overlap are read again before it pushes them out.
    const double passing = all_ < a_ ? 0.0 : kPassing * b_ / passes;
    const double blocks = number((block_.n + columns - 1) / columns);
    take({parts, columns, both_stay ? Streamed::none : Streamed::b},
         all_ * blocks + b_ * (both_stay ? 1.0 : groups) + overflow(stays + passing, room) * groups * (passes - 1.0),
         groups * passes);
  }

  void try_ranges() noexcept {
    const double blocks = number((block_.n + kRangeColumns - 1) / kRangeColumns);
    const double groups = rounded_up(parts_ / number(kMostParts));
    take({kMostParts, block_.n, crosses_lines_ ? Streamed::none : Streamed::a, true}, a_ * blocks + b_ * groups,
         parts_ * blocks * rounded_up(k_ / number(kRangeTerms)));
  }

  const GemmBlock& block_;
  const Cut& cut_;
  double parts_, k_, panels_, a_, b_, output_;
  bool crosses_lines_;
  double all_;  // bytes of L1 that all parts take
  double fewest_ = 1e300;
  Order best_ = {2, kColumns, Streamed::none};
};

Order order_of(const GemmBlock& block, const Cut& cut) noexcept { return Orders(block, cut).best(); }
