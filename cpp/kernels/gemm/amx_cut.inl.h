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
// behind. It is less than 16 rows, as each run's part of 16 more would make up for what is saved, and two parts of
// several are at least 18.
//
//   runs of 7, 9 apart     0123456--0123456--0123456--0123456--0123456--0123456--0123456
//   parts of 16 positions  (              )(              )(              )
//                                                                       (              )
class Cut {
 public:
  explicit Cut(const GemmBlock& block) noexcept
      : length_(block.m), runs_(block.runs), m_(block.m), distance_(block.m), parts_(block.m) {
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

  // Goes through the parts, and through their rows that are results, in order. It counts, as a division takes longer
  // than what the tile unit has to do meanwhile.
  class Walk {
   public:
    explicit Walk(const Cut& cut) noexcept : cut_(cut) {}

    Part next_part() noexcept {
      const std::size_t last = cut_.length_ - cut_.parts_.rows;
      const Part part = position_ < last ? Part{part_run_, position_, 0} : Part{part_run_, last, position_ - last};
      position_ += cut_.parts_.rows;
      if (position_ >= cut_.length_) {
        position_ = 0;
        ++part_run_;
      }
      return part;
    }

    // Rows of a part from `done` on that are of one run, and what is done after them.
    struct Rows {
      std::size_t run, row, count, done;
    };
    Rows next_rows(std::size_t done) noexcept {
      const std::size_t left = cut_.parts_.rows - done;
      if (row_ >= cut_.m_) {  // between two runs
        const std::size_t skipped = left < cut_.distance_ - row_ ? left : cut_.distance_ - row_;
        advance(skipped);
        return {0, 0, 0, done + skipped};
      }
      const std::size_t count = left < cut_.m_ - row_ ? left : cut_.m_ - row_;
      const Rows rows = {run_, row_, count, done + count};
      advance(count);
      return rows;
    }

   private:
    void advance(std::size_t rows) noexcept {
      row_ += rows;
      if (row_ != cut_.distance_) return;
      row_ = 0;
      ++run_;
    }

    const Cut& cut_;
    std::size_t part_run_ = 0, position_ = 0;
    std::size_t run_ = 0, row_ = 0;  // of the results
  };

 private:
  std::size_t length_, runs_;  // as they are cut
  std::size_t m_;              // rows of a run of the operands
  std::size_t distance_;       // from a run of the operands to the next, in rows
  EqualParts parts_;
};
