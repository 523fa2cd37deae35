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

// In which order the areas of a block are multiplied: some columns after the others, by all parts in groups.
struct Order {
  std::size_t parts;  // of an area
  std::size_t columns;
  Streamed streamed;
};

// What an operand may take of the 48 KiB of L1 beside the buffers of sums, and columns of the filter of the 2 MiB of
// L2.
constexpr double kLevel1Bytes = 40960.0, kLevel2Bytes = 524288.0;

// Bytes of a that some neighbouring parts read; windows may overlap.
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
  return extent < apart ? extent : apart;
}

// The order in which the fewest bytes come from L2, of those in which one operand stays in L1: a pair of panels that
// all parts pass by, or two or four parts that the filter passes by, or as many columns of it as stay in L2.
Order order_of(const GemmBlock& block, const Cut& cut) noexcept {
  const double k = static_cast<double>(block.segments * block.k);
  const double b = k * static_cast<double>((block.n + kNr - 1) / kNr * kNr);
  const double panel = k * static_cast<double>(kColumns), a = bytes_of_parts(block, cut, cut.count());
  Order best = {2, kColumns, Streamed::none};
  if (a + b <= kLevel1Bytes) return {block.n <= kNr ? kMostParts : 2, block.n, Streamed::none};
  if (a + panel <= kLevel1Bytes) return best;
  // Lines that are streamed are not there for the next window, nor for the next step of k where rows cross them.
  const bool crosses_lines =
      (reinterpret_cast<std::uintptr_t>(block.a) | block.a_row_stride | block.a_run_stride) % 64 != 0;
  double fewest = b / panel * k * static_cast<double>(cut.count() * cut.rows()) * (crosses_lines ? 2.0 : 1.0);
  if (panel <= kLevel1Bytes) {
    best.streamed = Streamed::a;
    fewest += b;
  } else {
    fewest += b / 2.0 * static_cast<double>(cut.count());
  }
  const double panels = kLevel2Bytes / panel < 1.0 ? 1.0 : kLevel2Bytes / panel;
  const std::size_t columns = b <= 2.0 * kLevel2Bytes ? block.n : static_cast<std::size_t>(panels) * kColumns;
  for (std::size_t parts = 2; parts <= kMostParts; parts *= 2) {
    const double stationary = bytes_of_parts(block, cut, parts < cut.count() ? parts : cut.count());
    if (stationary > kLevel1Bytes) break;
    const bool both_fit = stationary + b <= kLevel1Bytes;
    const double groups = both_fit ? 1.0 : static_cast<double>((cut.count() + parts - 1) / parts);
    const double bytes = a * static_cast<double>((block.n + columns - 1) / columns) + b * groups;
    if (bytes < fewest) {
      fewest = bytes;
      best = {parts, columns, both_fit ? Streamed::none : Streamed::b};
    }
  }
  return best;
}
