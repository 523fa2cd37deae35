// float_product.h where b has a few columns: a is read once, as it lies, and transposed in registers, so that the lanes
// of a sum are rows. Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h and
//
//   transpose_terms(a, stride, terms)    terms[t][lane] = a[lane * stride + t], of four terms

constexpr std::size_t kTransposedTerms = 4, kMostColumns = 4;

inline float sum_before(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  if (!block.begins) return block.sums[row * block.sums_row_stride + column];
  return block.bias == nullptr ? 0.0f : block.bias[column];
}

// As many rows as there are lanes, from row on; the first ones of them, which are skipped, are not written.
template <std::size_t columns>
inline void write_columns(const FloatProductBlock& block, std::size_t row, std::size_t skipped) noexcept {
  const std::size_t stride = block.a_row_stride;
  const float* b = block.b;
  float* sums = block.sums + row * block.sums_row_stride;
  float lanes[columns][kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t column = 0; column < columns; ++column) {
      lanes[column][lane] = sum_before(block, row + lane, column);
    }
  }
  Floats sum[columns];
#pragma GCC unroll 4
  for (std::size_t column = 0; column < columns; ++column) sum[column] = load(lanes[column]);
  const auto add_term = [&](Floats term) noexcept {
#pragma GCC unroll 4
    for (std::size_t column = 0; column < columns; ++column) {
      sum[column] = fused(term, spread(b[column]), sum[column]);
    }
    b += block.b_row_stride;
  };
  for (std::size_t run = 0; run < block.runs; ++run) {
    const float* a = block.a + row * stride + run * block.a_run_stride;
    std::size_t k = 0;
    for (; k + kTransposedTerms <= block.k; k += kTransposedTerms) {
      // Rows far apart are many short streams, of which the next lines are fetched here.
      for (std::size_t lane = 0; k % 16 == 0 && lane < kLanes; ++lane) {
        _mm_prefetch(reinterpret_cast<const char*>(a + (lane + kLanes) * stride + k), _MM_HINT_T0);
      }
      Floats terms[kTransposedTerms];
      transpose_terms(a + k, stride, terms);
#pragma GCC unroll 4
      for (std::size_t t = 0; t < kTransposedTerms; ++t) add_term(terms[t]);
    }
    for (; k < block.k; ++k) {
      float term[kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) term[lane] = a[lane * stride + k];
      add_term(load(term));
    }
  }
#pragma GCC unroll 4
  for (std::size_t column = 0; column < columns; ++column) store(lanes[column], sum[column]);
  for (std::size_t lane = skipped; lane < kLanes; ++lane) {
    for (std::size_t column = 0; column < columns; ++column) {
      sums[lane * block.sums_row_stride + column] = lanes[column][lane];
    }
  }
}

// m is at least kLanes, n at most kMostColumns. The last rows are computed with rows before them, which are done.
template <std::size_t columns>
inline void write_few_columns(const FloatProductBlock& block) noexcept {
  if constexpr (columns > 1) {
    if (block.n < columns) return write_few_columns<columns - 1>(block);
  }
  std::size_t row = 0;
  for (; row + kLanes <= block.m; row += kLanes) write_columns<columns>(block, row, 0);
  if (row < block.m) write_columns<columns>(block, block.m - kLanes, kLanes - (block.m - row));
}
