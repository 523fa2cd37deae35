// How the AMX kernel cuts the rows of a block into parts for its tiles.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles.

// Rows as tiles take them: as many as all parts have, from a position in a run on, of which the first `done` belong to
// the part before.
struct Part {
  std::size_t run, position, done;
};

// A number of rows in the fewest equal parts, the last of which begins early enough to have as many. A part of fewer
// rows is no faster: beside the loads of its operands, a product of 12 rows takes as long as one of 16.
struct EqualParts {
  std::size_t count, rows;

  explicit EqualParts(std::size_t length) noexcept
      : count((length + kTileRows - 1) / kTileRows), rows((length + count - 1) / count) {}
};

// How the rows of a block are cut into parts. Runs at a regular distance, as those of an image in a padded one, are cut
// as if they were a single run where that makes fewer parts: what lies between them is multiplied, too, and left
// behind.
//
//   runs of 7, 9 apart     0123456--0123456--0123456--0123456--0123456--0123456--0123456
//   parts of 16 positions  (              )(              )(              )
//                                                                       (              )
class Cut {
 public:
  explicit Cut(const GemmBlock& block) noexcept : length_(block.m), runs_(block.runs), m_(block.m), parts_(block.m) {
    if (runs_ < 2 || block.a_row_stride == 0 || block.a_run_stride % block.a_row_stride != 0) return;
    const std::size_t distance = block.a_run_stride / block.a_row_stride;
    if (distance < m_ || distance > 2 * m_) return;
    const std::size_t length = (runs_ - 1) * distance + m_;
    const EqualParts of_all(length);
    if (of_all.count >= runs_ * parts_.count) return;
    length_ = length;
    distance_ = distance;
    runs_ = 1;
    parts_ = of_all;
  }

  std::size_t count() const noexcept { return runs_ * parts_.count; }
  std::size_t rows() const noexcept { return parts_.rows; }

  Part part(std::size_t index) const noexcept {
    const std::size_t first = index % parts_.count * parts_.rows, last = length_ - parts_.rows;
    return {index / parts_.count, first < last ? first : last, first < last ? 0 : first - last};
  }

  // The rows of a part from `done` on that are of one run, and what is done after them.
  struct Rows {
    std::size_t run, row, count, done;
  };
  Rows rows_of(const Part& part, std::size_t done) const noexcept {
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
