// float_product.h in tiles of sums that stay in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h, columns.inl.h,
// long_rows.inl.h and
//
//   kVectors, kRowVectors        the vectors of a row of a tile of 4 rows, and of one row

// A tile; of a masked one the last vector of each row is cut off at the end.
template <std::size_t rows, std::size_t vectors, bool masked>
inline void write_tile(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const Mask mask = first_lanes((block.n - column - 1) % kLanes + 1);
  const auto load_vector = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? load(values + v * kLanes, mask) : load(values + v * kLanes);
  };
  float* sums = block.sums + row * block.sums_row_stride + column;
  const float *a = block.a + row * block.a_row_stride, *b = block.b + column;
  Floats sum[rows][vectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) {
      sum[r][v] = block.begins ? zeros() : load_vector(sums + r * block.sums_row_stride, v);
    }
  }
  for (std::size_t k = 0; k < block.k; ++k, b += block.b_row_stride) {
    Floats of_b[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) of_b[v] = load_vector(b, v);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
      const Floats of_a = spread(a[r * block.a_row_stride + k]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = fused(of_a, of_b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < rows; ++r) {
    float* row_sums = sums + r * block.sums_row_stride;
#pragma GCC unroll 8
    for (std::size_t v = 0; v + masked < vectors; ++v) store(row_sums + v * kLanes, sum[r][v]);
    if (masked) store(row_sums + (vectors - 1) * kLanes, mask, sum[r][vectors - 1]);
  }
}

// The columns that are left, in as few vectors as hold them.
template <std::size_t rows, std::size_t vectors>
inline void write_last(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  if constexpr (vectors > 1) {
    if (block.n - column <= (vectors - 1) * kLanes) return write_last<rows, vectors - 1>(block, row, column);
  }
  write_tile<rows, vectors, true>(block, row, column);
}

template <std::size_t rows>
inline void write_rows(const FloatProductBlock& block, std::size_t row) noexcept {
  std::size_t column = 0;
  if (rows == 1) {
    for (; column + kRowVectors * kLanes <= block.n; column += kRowVectors * kLanes) {
      write_tile<rows, kRowVectors, false>(block, row, column);
    }
  }
  for (; column + kVectors * kLanes <= block.n; column += kVectors * kLanes) {
    write_tile<rows, kVectors, false>(block, row, column);
  }
  if (column < block.n) write_last<rows, kVectors>(block, row, column);
}

void accumulate(const FloatProductBlock& block) noexcept {
  if (block.n <= kMostColumns && block.m >= kLanes) return write_few_columns<kMostColumns>(block);
  if (block.m <= kMostRows && block.n >= kLongRow && block.k >= kTermsAtOnce) return write_long_rows(block);
  std::size_t row = 0;
  for (; row + 4 <= block.m; row += 4) write_rows<4>(block, row);
  for (; row < block.m; ++row) write_rows<1>(block, row);
}
