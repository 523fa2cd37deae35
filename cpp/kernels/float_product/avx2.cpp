// float_product.h for AVX2 with FMA: tiles of 4 rows and up to 16 columns, or of one row and up to 64, so that eight
// steps are under way at once.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kLanes = 8;

// A tile of sums in registers; of a masked one the last vector of each row is cut off at the end.
template <std::size_t rows, std::size_t vectors, bool masked>
inline void write_tile(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const auto left = static_cast<int>((block.n - column - 1) % kLanes + 1);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const auto load = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? _mm256_maskload_ps(values + v * kLanes, mask)
                                      : _mm256_loadu_ps(values + v * kLanes);
  };
  float* sums = block.sums + row * block.sums_row_stride + column;
  const float *a = block.a + row * block.a_row_stride, *b = block.b + column;
  __m256 sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < vectors; ++v) {
      sum[r][v] = block.begins ? _mm256_setzero_ps() : load(sums + r * block.sums_row_stride, v);
    }
  }
  for (std::size_t k = 0; k < block.k; ++k, b += block.b_row_stride) {
    __m256 of_b[vectors];
    for (std::size_t v = 0; v < vectors; ++v) of_b[v] = load(b, v);
    for (std::size_t r = 0; r < rows; ++r) {
      const __m256 of_a = _mm256_set1_ps(a[r * block.a_row_stride + k]);
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = _mm256_fmadd_ps(of_a, of_b[v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* row_sums = sums + r * block.sums_row_stride;
    for (std::size_t v = 0; v + masked < vectors; ++v) _mm256_storeu_ps(row_sums + v * kLanes, sum[r][v]);
    if (masked) _mm256_maskstore_ps(row_sums + (vectors - 1) * kLanes, mask, sum[r][vectors - 1]);
  }
}

template <std::size_t rows>
inline void write_rows(const FloatProductBlock& block, std::size_t row) noexcept {
  std::size_t column = 0;
  if (rows == 1) {
    for (; column + 8 * kLanes <= block.n; column += 8 * kLanes) write_tile<rows, 8, false>(block, row, column);
  }
  for (; column + 2 * kLanes <= block.n; column += 2 * kLanes) write_tile<rows, 2, false>(block, row, column);
  if (column == block.n) return;
  switch ((block.n - column - 1) / kLanes) {
    case 0:
      return write_tile<rows, 1, true>(block, row, column);
    default:
      return write_tile<rows, 2, true>(block, row, column);
  }
}

void accumulate(const FloatProductBlock& block) noexcept {
  std::size_t row = 0;
  for (; row + 4 <= block.m; row += 4) write_rows<4>(block, row);
  for (; row < block.m; ++row) write_rows<1>(block, row);
}

}  // namespace

constinit const FloatProductKernels avx2::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
