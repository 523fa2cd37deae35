// How the AMX kernel reads rows that begin amid cache lines without a copy of them.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles.
//
// Rows of 144 bytes begin at one of four places of a line. Every fourth row begins at the same one, nine lines on:
// these are a class. Its rows are read from the beginning of their first line, and multiplied by b from as many zeros
// before it on, which are the padding of the panel before:
//
//   a row of 144 bytes    |-- -- ... -- x0 x1 ... x47|x48 ...      x111|x112 ... x143 -- -- ...|
//   b                     |0  0  ... 0  w0 w1 ... w47|w48 ...      w111|w112 ... w143 0  0  ...|
//
// Rows of whole lines are all of one class; those that do not begin at a line take another step of k then.

// The blocks that a block of rows with padding is multiplied as: one for each class, or a single one.
class RowClasses {
 public:
  explicit RowClasses(const GemmBlock& block) noexcept : block_(block) {
    // A block takes some hundred cycles beside its products, and passes by the lines of all rows and results. Copying
    // the rows takes less than that for many columns.
    constexpr std::size_t kMostClasses = 4, kLeastParts = 3, kMostColumns = 8 * kNr;
    if (block.padding == 0 || block.filter_zero_point != nullptr || block.n > kMostColumns) return;
    const std::size_t step = block.a_row_stride & (~block.a_row_stride + 1);  // the largest power of 2 within it
    if (step < kLine / kMostClasses || step >= kLine) return;
    if (block.m >= kLine / step * kLeastParts * kTileRows) count_ = kLine / step;
  }

  std::size_t count() const noexcept { return count_; }

  GemmBlock block_of(std::size_t number) const noexcept {
    GemmBlock block = block_;
    block.m = (block_.m - number + count_ - 1) / count_;
    block.a += number * block_.a_row_stride;
    block.a_row_stride *= count_;
    if (block.sums != nullptr) {
      block.sums += number * block_.output_row_stride;
    } else {
      block.output += number * block_.output_row_stride;
    }
    block.output_row_stride *= count_;
    const std::size_t terms = block.k - block.padding, before = bytes_before(block);
    block.a -= before;
    block.b -= before * kNr;
    block.k = (before + terms + kKr - 1) / kKr * kKr;
    block.padding = block.k - before - terms;
    return block;
  }

 private:
  static constexpr std::size_t kLine = 64;

  // How far before their first terms rows are read, all from the beginning of a line.
  static std::size_t bytes_before(const GemmBlock& block) noexcept {
    if (block.a_row_stride % kLine != 0) return 0;
    const std::size_t before = reinterpret_cast<std::uintptr_t>(block.a + block.a_offsets[0]) % kLine;
    return before <= block.padding && before % 4 == 0 ? before : 0;
  }

  const GemmBlock& block_;
  std::size_t count_ = 1;
};
