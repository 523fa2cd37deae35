// How a block is cut into tiles: rows of one run by the columns of one panel. A kernel may join short runs.
// Included inside the unnamed namespace of a kernel file.

// Where a tile's operands begin, and its size.
struct Tile {
  const std::uint8_t* a;
  const std::uint8_t* b;
  std::size_t rows, columns;
  const std::int32_t* offset;
  const float* multiplier;                // may be null where sums are written
  const std::int32_t* filter_zero_point;  // may be null
  const std::int32_t* activation_sum;
  std::uint8_t* output;
  std::int32_t* sums;  // may be null
};

// Equal parts of a run: the first `longer` of them have one row more than the others.
struct Parts {
  std::size_t count, rows, longer;

  Parts(std::size_t m, std::size_t most) noexcept : count((m + most - 1) / most) {
    rows = count == 0 ? 0 : m / count;
    longer = m - rows * count;
  }
  std::size_t first_row(std::size_t part) const noexcept { return part * rows + (part < longer ? part : longer); }
  std::size_t rows_of(std::size_t part) const noexcept { return rows + (part < longer ? 1 : 0); }
};

inline Tile tile_of(const GemmBlock& block, std::size_t nr, std::size_t panel, std::size_t run, std::size_t first_row,
                    std::size_t rows) noexcept {
  const std::size_t place = run * block.output_run_stride + first_row * block.output_row_stride + panel;
  const std::size_t row = run * block.m + first_row;
  const std::size_t own = block.is_of_planes ? row : panel, other = block.is_of_planes ? panel : row;
  return {block.a + run * block.a_run_stride + first_row * block.a_row_stride,
          block.b + panel / nr * block.b_panel_stride,
          rows,
          block.n - panel < nr ? block.n - panel : nr,
          block.offset + own,
          block.multiplier == nullptr ? nullptr : block.multiplier + own,
          block.filter_zero_point == nullptr ? nullptr : block.filter_zero_point + own,
          block.filter_zero_point == nullptr ? nullptr : block.activation_sum + other,
          block.output == nullptr ? nullptr : block.output + place,
          block.sums == nullptr ? nullptr : block.sums + place};
}

// Calls multiply_tile(tile) for all tiles of at most mr rows by the columns from `first` to before `end`, those of a
// panel together.
template <class Function>
inline void for_each_tile(const GemmBlock& block, std::size_t mr, std::size_t nr, std::size_t first, std::size_t end,
                          Function multiply_tile) noexcept {
  const Parts parts(block.m, mr);
  for (std::size_t panel = first; panel < end; panel += nr) {
    for (std::size_t run = 0; run < block.runs; ++run) {
      for (std::size_t part = 0; part < parts.count; ++part) {
        multiply_tile(tile_of(block, nr, panel, run, parts.first_row(part), parts.rows_of(part)));
      }
    }
  }
}

// The same, those of a few rows together.
template <class Function>
inline void for_each_tile_by_rows(const GemmBlock& block, std::size_t mr, std::size_t nr, std::size_t first,
                                  std::size_t end, Function multiply_tile) noexcept {
  const Parts parts(block.m, mr);
  for (std::size_t run = 0; run < block.runs; ++run) {
    for (std::size_t part = 0; part < parts.count; ++part) {
      for (std::size_t panel = first; panel < end; panel += nr) {
        multiply_tile(tile_of(block, nr, panel, run, parts.first_row(part), parts.rows_of(part)));
      }
    }
  }
}

// Those of a panel together, for all columns.
template <class Function>
inline void for_each_tile(const GemmBlock& block, std::size_t mr, std::size_t nr, Function multiply_tile) noexcept {
  for_each_tile(block, mr, nr, 0, block.n, multiply_tile);
}
