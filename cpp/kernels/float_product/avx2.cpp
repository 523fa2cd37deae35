// float_product.h for AVX2 with FMA: tiles of 6 rows by 16 columns or of 12 by 8, or of one row by up to 64, so that
// eight steps are under way at once. A few columns, or long rows, are read where they lie.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx2.inl.h"

// 4 rows a half, whose 4 x 4 elements are transposed within it.
inline void transpose_terms(const float* a, std::size_t stride, Floats (&terms)[4]) noexcept {
  Floats rows[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const float* row = a + i * stride;
    rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)), _mm_loadu_ps(row + 4 * stride), 1);
  }
  const __m256d low_01 = _mm256_castps_pd(_mm256_unpacklo_ps(rows[0], rows[1]));
  const __m256d high_01 = _mm256_castps_pd(_mm256_unpackhi_ps(rows[0], rows[1]));
  const __m256d low_23 = _mm256_castps_pd(_mm256_unpacklo_ps(rows[2], rows[3]));
  const __m256d high_23 = _mm256_castps_pd(_mm256_unpackhi_ps(rows[2], rows[3]));
  terms[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low_01, low_23));
  terms[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low_01, low_23));
  terms[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high_01, high_23));
  terms[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high_01, high_23));
}

constexpr std::size_t kVectors = 2, kRowVectors = 8;
constexpr std::size_t kTileRows[kVectors] = {12, 6};

#include "kernels/float_product/columns.inl.h"
#include "kernels/float_product/long_rows.inl.h"
#include "kernels/float_product/tiles.inl.h"

}  // namespace

constinit const FloatProductKernels avx2::float_product = {.accumulate = accumulate, .panel_columns = kPanelColumns};

}  // namespace dmlcpu
