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
    // rows of a single segment takes less than that for many columns.
    constexpr std::size_t kMostClasses = 4, kLeastParts = 3, kMostColumns = 8 * kNr;
    if (block.padding == 0 || (block.segments == 1 && block.n > kMostColumns)) return;
    const std::size_t step = block.a_row_stride & (~block.a_row_stride + 1);  // the largest power of 2 within it
    if (step < kLine / kMostClasses || step >= kLine) return;
    const std::size_t classes = kLine / step, rows = block.runs * block.m;
    if (block.m < classes || rows < classes * kLeastParts * kTileRows) return;
    if (block.filter_zero_point == nullptr || rows <= kMostSums) count_ = classes;
  }

  std::size_t count() const noexcept { return count_; }

  // Until that of the next class.
  GemmBlock block_of(std::size_t number) noexcept {
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
    if (block.filter_zero_point != nullptr && count_ > 1) block.activation_sum = sums_of(number, block.m);
    const std::size_t terms = block.k - block.padding, before = bytes_before(block);
    block.a -= before;
    block.b -= before * kNr;
    block.k = (before + terms + kKr - 1) / kKr * kKr;
    block.padding = block.k - before - terms;
    return block;
  }

 private:
  static constexpr std::size_t kMostSums = 2048;

  // How far before their first terms rows are read, all from the beginning of a line.
  static std::size_t bytes_before(const GemmBlock& block) noexcept {
    const std::size_t before = reinterpret_cast<std::uintptr_t>(block.a + block.a_offsets[0]) % kLine;
    std::size_t distances = block.a_row_stride;
    if (block.runs > 1) distances |= block.a_run_stride;
    for (std::size_t i = 1; i < block.segments; ++i) distances |= block.a_offsets[i] - block.a_offsets[0];
    return distances % kLine == 0 && before <= block.padding && before % 4 == 0 ? before : 0;
  }

  const std::int32_t* sums_of(std::size_t number, std::size_t m) noexcept {
    std::int32_t* sums = sums_;
    for (std::size_t run = 0; run < block_.runs; ++run) {
      const std::int32_t* of_run = block_.activation_sum + run * block_.m + number;
      for (std::size_t row = 0; row < m; ++row) *sums++ = of_run[row * count_];
    }
    return sums_;
  }

  const GemmBlock& block_;
  std::size_t count_ = 1;
  std::int32_t sums_[kMostSums];
};
