// float_product.h in tiles of sums that stay in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h, columns.inl.h,
// long_rows.inl.h and
//
//   kVectors, kRowVectors        the most vectors of a row of a tile of several rows, and of a tile of one row alone
//   kTileRows[kVectors]          the rows of a tile of so many vectors, from one on: the fewer, the more, so that
//                                enough steps are under way at once

// What rows of b are fetched in: as many columns as a panel of float_tiles.h has, and those of a cache's line.
constexpr std::size_t kFetchedColumns = 64, kColumnsOfLine = 16;

constexpr std::size_t kPanelColumns = kVectors * kLanes;

// How a tile reads b: rows as they lie; the beginnings of rows of kFetchedColumns, asking for what is behind them; rows
// of whole panels side by side; or these, asking for as many panels behind them.
enum class Reading { rows, rows_ahead, panels, panels_ahead };

constexpr bool by_panels(Reading reading) { return reading == Reading::panels || reading == Reading::panels_ahead; }

// A tile; of a masked one the last vector of each row is cut off at the end.
template <std::size_t rows, std::size_t vectors, bool masked, Reading reading = Reading::rows>
inline void write_tile(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const Mask mask = first_lanes((block.n - column - 1) % kLanes + 1);
  const auto load_vector = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? load(values + v * kLanes, mask) : load(values + v * kLanes);
  };
  float* sums = block.sums + row * block.sums_row_stride + column;
  const float *a = block.a + row * block.a_row_stride,
              *b = block.b + (by_panels(reading) ? column / kPanelColumns * block.b_panel_stride : column);
  Floats sum[rows][vectors];
  const float* first = block.begins ? block.bias : sums;  // what the sums begin at, or null for zeros
  const std::size_t first_stride = block.begins ? 0 : block.sums_row_stride;
  if (block.begins && first != nullptr) first += column;
#pragma GCC unroll 16
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) {
      sum[r][v] = first == nullptr ? zeros() : load_vector(first + r * first_stride, v);
    }
  }
  for (std::size_t run = 0; run < block.runs; ++run, a += block.a_run_stride) {
    for (std::size_t k = 0; k < block.k; ++k, b += block.b_row_stride) {
      if constexpr (reading == Reading::rows_ahead) {
#pragma GCC unroll 4
        for (std::size_t other = vectors * kLanes; other < kFetchedColumns; other += kColumnsOfLine) {
          _mm_prefetch(reinterpret_cast<const char*>(b + other), _MM_HINT_T0);
        }
      }
      if constexpr (reading == Reading::panels_ahead) {
        constexpr std::size_t panels = vectors / kVectors;
#pragma GCC unroll 4
        for (std::size_t panel = panels; panel < 2 * panels; ++panel) {
#pragma GCC unroll 4
          for (std::size_t line = 0; line < kPanelColumns; line += kColumnsOfLine) {
            _mm_prefetch(reinterpret_cast<const char*>(b + panel * block.b_panel_stride + line), _MM_HINT_T0);
          }
        }
      }
      Floats of_b[vectors];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) {
        of_b[v] = by_panels(reading) ? load(b + v / kVectors * block.b_panel_stride + v % kVectors * kLanes)
                                     : load_vector(b, v);
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < rows; ++r) {
        const Floats of_a = spread(a[r * block.a_row_stride + k]);
#pragma GCC unroll 8
        for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = fused(of_a, of_b[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < rows; ++r) {
    float* row_sums = sums + r * block.sums_row_stride;
#pragma GCC unroll 8
    for (std::size_t v = 0; v + masked < vectors; ++v) store(row_sums + v * kLanes, sum[r][v]);
    if (masked) store(row_sums + (vectors - 1) * kLanes, mask, sum[r][vectors - 1]);
  }
}

// The last columns of a row, in as few vectors as hold them.
template <std::size_t vectors>
inline void write_end_of_row(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  if constexpr (vectors > 1) {
    if (block.n - column <= (vectors - 1) * kLanes) return write_end_of_row<vectors - 1>(block, row, column);
  }
  write_tile<1, vectors, true>(block, row, column);
}

inline void write_row(const FloatProductBlock& block, std::size_t row) noexcept {
  std::size_t column = 0;
  for (; column + kRowVectors * kLanes <= block.n; column += kRowVectors * kLanes) {
    write_tile<1, kRowVectors, false>(block, row, column);
  }
  if (column < block.n) write_end_of_row<kRowVectors>(block, row, column);
}

// The last rows of whole vectors, as many as a tile of so many rows has or fewer.
template <std::size_t rows>
inline void write_last_rows(const FloatProductBlock& block, std::size_t row, std::size_t end,
                            std::size_t column) noexcept {
  if constexpr (rows > 1) {
    if (end - row < rows) return write_last_rows<rows - 1>(block, row, end, column);
  }
  write_tile<rows, kVectors, false>(block, row, column);
}

// The rows from `row` on of a panel of columns, as many as fill tiles of so many rows, then those of tiles of fewer: of
// whole vectors in two tiles of as many rows as can be equal, as one of few rows has too few steps under way.
template <std::size_t rows, std::size_t vectors, bool masked>
inline void write_rows(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  constexpr bool is_whole = !masked && vectors == kVectors;
  // Tiles of the next columns would read short pieces far apart, which is slow where b is in no near cache.
  if constexpr (is_whole && vectors * kLanes < kFetchedColumns) {
    if (!block.b_is_near && row == 0 && column % kFetchedColumns == 0 && rows <= block.m &&
        kFetchedColumns <= block.n - column) {
      write_tile<rows, vectors, masked, Reading::rows_ahead>(block, row, column);
      row += rows;
    }
  }
  if constexpr (is_whole) {
    for (; row + 2 * rows <= block.m || row + rows == block.m; row += rows) {
      write_tile<rows, vectors, masked>(block, row, column);
    }
    const std::size_t left = block.m - row, first = left > rows ? (left + 1) / 2 : left;
    if (left == 0) return;
    write_last_rows<rows>(block, row, row + first, column);
    if (first < left) write_last_rows<rows>(block, row + first, block.m, column);
  } else {
    for (; row + rows <= block.m; row += rows) write_tile<rows, vectors, masked>(block, row, column);
    if constexpr (rows > 1) write_rows<(rows > 4 ? 4 : rows / 2), vectors, masked>(block, row, column);
  }
}

// A panel of columns from `column` on, the last ones in as few vectors as hold them.
template <std::size_t vectors>
inline void write_panel(const FloatProductBlock& block, std::size_t column) noexcept {
  if constexpr (vectors > 1) {
    if (block.n - column <= (vectors - 1) * kLanes) return write_panel<vectors - 1>(block, column);
  }
  constexpr std::size_t rows = kTileRows[vectors - 1];
  if (block.n - column >= vectors * kLanes) return write_rows<rows, vectors, false>(block, 0, column);
  write_rows<rows, vectors, true>(block, 0, column);
}

// b's rows as they lie.
inline void write_one_panel(const FloatProductBlock& block) noexcept {
  if (block.n <= kMostColumns && block.m >= kLanes) return write_few_columns<kMostColumns>(block);
  if (block.m <= kMostRows && block.n >= kLongRow && block.k >= kTermsAtOnce) return write_long_rows(block);
  if (block.m <= kMostRows) {
    for (std::size_t row = 0; row < block.m; ++row) write_row(block, row);
    return;
  }
  for (std::size_t column = 0; column < block.n; column += kVectors * kLanes) {
    write_panel<kVectors>(block, column);
  }
}

// A first tile waits for memory unless as many panels come from there at once as one row reads side by side: 4 rows
// by 3072 x 768 take 1290 us with the panels behind asked for, and 1650 without. Two panels of 3 rows are enough.
constexpr std::size_t kRowsAhead = 4;

// A tile of so many rows by whole panels.
template <std::size_t rows, std::size_t panels>
inline void write_tile_by_panels(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  if constexpr (rows >= kRowsAhead) {
    if (row == 0) return write_tile<rows, panels * kVectors, false, Reading::panels_ahead>(block, row, column);
  }
  write_tile<rows, panels * kVectors, false, Reading::panels>(block, row, column);
}

// So many rows by the panels from `column` to `end`.
template <std::size_t rows, std::size_t panels>
inline void write_rows_by_panels(const FloatProductBlock& block, std::size_t row, std::size_t column,
                                 std::size_t end) noexcept {
  for (; column + panels * kPanelColumns <= end; column += panels * kPanelColumns) {
    write_tile_by_panels<rows, panels>(block, row, column);
  }
  if constexpr (panels > 1) {
    if (column < end) write_rows_by_panels<rows, panels - 1>(block, row, column, end);
  }
}

// The last rows, fewer than `rows`, by so many panels side by side that kRowVectors steps are under way at once.
template <std::size_t rows>
inline void write_last_rows_by_panels(const FloatProductBlock& block, std::size_t row, std::size_t end) noexcept {
  if constexpr (rows > 1) {
    if (block.m - row < rows - 1) return write_last_rows_by_panels<rows - 1>(block, row, end);
    constexpr std::size_t steps = (rows - 1) * kVectors;  // of a panel
    write_rows_by_panels<rows - 1, (kRowVectors + steps - 1) / steps>(block, row, 0, end);
  }
}

// The last panel may have fewer columns.
inline void write_panels(const FloatProductBlock& block) noexcept {
  constexpr std::size_t rows = kTileRows[kVectors - 1];
  const std::size_t end = block.n / kPanelColumns * kPanelColumns, last_rows = block.m - block.m % rows;
  for (std::size_t column = 0; column < end; column += kPanelColumns) {
    for (std::size_t row = 0; row < last_rows; row += rows) {
      write_tile_by_panels<rows, 1>(block, row, column);
    }
  }
  if (last_rows < block.m) write_last_rows_by_panels<rows>(block, last_rows, end);
  if (end == block.n) return;
  FloatProductBlock last = block;
  last.b += end / kPanelColumns * block.b_panel_stride;
  last.n -= end;
  last.sums += end;
  if (last.bias != nullptr) last.bias += end;
  write_one_panel(last);
}

void accumulate(const FloatProductBlock& block) noexcept {
  block.b_panel_stride != 0 && block.n > kPanelColumns ? write_panels(block) : write_one_panel(block);
}
