// float_product.h where a has a few rows and b long ones: b is read once, in long runs, a few of its rows at once, and
// the sums are kept in a level-1 cache. Included inside the unnamed namespace of a kernel file, behind
// masked_floats/<isa>.inl.h.

// Tiles of registers read short pieces of rows far apart, which is slower where b is in no near cache: a row by
// 2048 x 4096 takes 5.6 ms in tiles and 2.5 in this way. From four rows on tiles spend less on loads.
constexpr std::size_t kMostRows = 3, kLongRow = 512, kTermsAtOnce = 8;

// Adds the products of so many terms of a run, from k on, to the sums of a row.
template <std::size_t terms>
inline void add_terms(const FloatProductBlock& block, std::size_t row, std::size_t run, std::size_t k) noexcept {
  const float* a = block.a + row * block.a_row_stride + run * block.a_run_stride + k;
  const float* b = block.b + (run * block.k + k) * block.b_row_stride;
  float* sums = block.sums + row * block.sums_row_stride;
  const float* first = block.begins && run + k == 0 ? block.bias : sums;  // or null for zeros
  Floats of_a[terms];
#pragma GCC unroll 8
  for (std::size_t t = 0; t < terms; ++t) of_a[t] = spread(a[t]);
  std::size_t column = 0;
  for (; column + kLanes <= block.n; column += kLanes) {
    Floats sum = first == nullptr ? zeros() : load(first + column);
#pragma GCC unroll 8
    for (std::size_t t = 0; t < terms; ++t) sum = fused(of_a[t], load(b + t * block.b_row_stride + column), sum);
    store(sums + column, sum);
  }
  if (column == block.n) return;
  const Mask mask = first_lanes(block.n - column);
  Floats sum = first == nullptr ? zeros() : load(first + column, mask);
#pragma GCC unroll 8
  for (std::size_t t = 0; t < terms; ++t) sum = fused(of_a[t], load(b + t * block.b_row_stride + column, mask), sum);
  store(sums + column, mask, sum);
}

inline void write_long_rows(const FloatProductBlock& block) noexcept {
  for (std::size_t run = 0; run < block.runs; ++run) {
    std::size_t k = 0;
    for (; k + kTermsAtOnce <= block.k; k += kTermsAtOnce) {
      for (std::size_t row = 0; row < block.m; ++row) add_terms<kTermsAtOnce>(block, row, run, k);
    }
    for (; k < block.k; ++k) {
      for (std::size_t row = 0; row < block.m; ++row) add_terms<1>(block, row, run, k);
    }
  }
}
