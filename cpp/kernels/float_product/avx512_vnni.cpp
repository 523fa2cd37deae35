// float_product.h for AVX-512: tiles of 4 rows and up to 64 columns, or of one row and up to 128, so that many steps
// are under way at once. Bound by the fused units where b comes from a level-1 cache.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kLanes = 16;

// A tile of sums in registers; of a masked one the last vector of each row is cut off at the end.
template <std::size_t rows, std::size_t vectors, bool masked>
inline void write_tile(const FloatProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const std::size_t left = (block.n - column - 1) % kLanes + 1;
  const auto mask = static_cast<__mmask16>((1U << left) - 1);
  const auto load = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? _mm512_maskz_loadu_ps(mask, values + v * kLanes)
                                      : _mm512_loadu_ps(values + v * kLanes);
  };
  float* sums = block.sums + row * block.sums_row_stride + column;
  const float *a = block.a + row * block.a_row_stride, *b = block.b + column;
  __m512 sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < vectors; ++v) {
      sum[r][v] = block.begins ? _mm512_setzero_ps() : load(sums + r * block.sums_row_stride, v);
    }
  }
  for (std::size_t k = 0; k < block.k; ++k, b += block.b_row_stride) {
    __m512 of_b[vectors];
    for (std::size_t v = 0; v < vectors; ++v) of_b[v] = load(b, v);
    for (std::size_t r = 0; r < rows; ++r) {
      const __m512 of_a = _mm512_set1_ps(a[r * block.a_row_stride + k]);
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = _mm512_fmadd_ps(of_a, of_b[v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* row_sums = sums + r * block.sums_row_stride;
    for (std::size_t v = 0; v + masked < vectors; ++v) _mm512_storeu_ps(row_sums + v * kLanes, sum[r][v]);
    if (masked) _mm512_mask_storeu_ps(row_sums + (vectors - 1) * kLanes, mask, sum[r][vectors - 1]);
  }
}

template <std::size_t rows>
inline void write_rows(const FloatProductBlock& block, std::size_t row) noexcept {
  std::size_t column = 0;
  if (rows == 1) {
    for (; column + 8 * kLanes <= block.n; column += 8 * kLanes) write_tile<rows, 8, false>(block, row, column);
  }
  for (; column + 4 * kLanes <= block.n; column += 4 * kLanes) write_tile<rows, 4, false>(block, row, column);
  if (column == block.n) return;
  switch ((block.n - column - 1) / kLanes) {
    case 0:
      return write_tile<rows, 1, true>(block, row, column);
    case 1:
      return write_tile<rows, 2, true>(block, row, column);
    case 2:
      return write_tile<rows, 3, true>(block, row, column);
    default:
      return write_tile<rows, 4, true>(block, row, column);
  }
}

void accumulate(const FloatProductBlock& block) noexcept {
  std::size_t row = 0;
  for (; row + 4 <= block.m; row += 4) write_rows<4>(block, row);
  for (; row < block.m; ++row) write_rows<1>(block, row);
}

}  // namespace

constinit const FloatProductKernels avx512_vnni::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
