// float_product.h in tiles of sums that stay in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h, columns.inl.h,
// long_rows.inl.h and
//
//   kVectors, kRowVectors        the most vectors of a row of a tile of several rows, and of a tile of one row alone
//   kTileRows[kVectors]          the rows of a tile of so many vectors, from one on: the fewer, the more, so that
//                                enough steps are under way at once

// What rows of b are fetched in: as many columns as a panel of float_tiles.h has, and those of a cache's line.
constexpr std::size_t kFetchedColumns = 64, kColumnsOfLine = 16;

// A tile; of a masked one the last vector of each row is cut off at the end. One that fetches reads the beginnings of
// rows of kFetchedColumns, and asks for the others.
template <std::size_t rows, std::size_t vectors, bool masked, bool fetches = false>
inline void write_tile(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const Mask mask = first_lanes((block.n - column - 1) % kLanes + 1);
  const auto load_vector = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? load(values + v * kLanes, mask) : load(values + v * kLanes);
  };
  float* sums = block.sums + row * block.sums_row_stride + column;
  const float *a = block.a + row * block.a_row_stride, *b = block.b + column;
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
      if constexpr (fetches) {
#pragma GCC unroll 4
        for (std::size_t other = vectors * kLanes; other < kFetchedColumns; other += kColumnsOfLine) {
          _mm_prefetch(reinterpret_cast<const char*>(b + other), _MM_HINT_T0);
        }
      }
      Floats of_b[vectors];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) of_b[v] = load_vector(b, v);
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

// The rows from `row` on of a panel of columns, as many as fill tiles of so many rows, then those of tiles of fewer.
template <std::size_t rows, std::size_t vectors, bool masked>
inline void write_rows(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  // Tiles of the next columns would read short pieces far apart, which is slow where b is in no near cache.
  if constexpr (!masked && vectors == kVectors && vectors * kLanes < kFetchedColumns) {
    if (!block.b_is_near && row == 0 && column % kFetchedColumns == 0 && rows <= block.m &&
        kFetchedColumns <= block.n - column) {
      write_tile<rows, vectors, masked, true>(block, row, column);
      row += rows;
    }
  }
  for (; row + rows <= block.m; row += rows) write_tile<rows, vectors, masked>(block, row, column);
  if constexpr (rows > 1) write_rows<(rows > 4 ? 4 : rows / 2), vectors, masked>(block, row, column);
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

void accumulate(const FloatProductBlock& block) noexcept {
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
