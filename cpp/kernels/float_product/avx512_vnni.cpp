// float_product.h for AVX-512: tiles of 6 to 12 rows and up to 64 columns, or of one row and up to 128, so that many
// steps are under way at once. Bound by the fused units where b comes from a level-1 cache. A few columns, or long
// rows, are read where they lie.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx512_vnni.inl.h"

// 4 rows a quarter, whose 4 x 4 elements are transposed within it.
inline void transpose_terms(const float* a, std::size_t stride, Floats (&terms)[4]) noexcept {
  Floats rows[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const float* row = a + i * stride;
    rows[i] = _mm512_zextps128_ps512(_mm_loadu_ps(row));
    rows[i] = _mm512_mask_broadcast_f32x4(rows[i], 0x00f0, _mm_loadu_ps(row + 4 * stride));
    rows[i] = _mm512_mask_broadcast_f32x4(rows[i], 0x0f00, _mm_loadu_ps(row + 8 * stride));
    rows[i] = _mm512_mask_broadcast_f32x4(rows[i], 0xf000, _mm_loadu_ps(row + 12 * stride));
  }
  const __m512d low_01 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
  const __m512d high_01 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
  const __m512d low_23 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
  const __m512d high_23 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
  terms[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low_01, low_23));
  terms[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low_01, low_23));
  terms[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high_01, high_23));
  terms[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high_01, high_23));
}

constexpr std::size_t kVectors = 4, kRowVectors = 8;
constexpr std::size_t kTileRows[kVectors] = {12, 12, 8, 6};

#include "kernels/float_product/columns.inl.h"
#include "kernels/float_product/long_rows.inl.h"
#include "kernels/float_product/tiles.inl.h"

}  // namespace

constinit const FloatProductKernels avx512_vnni::float_product = {.accumulate = accumulate,
                                                                  .panel_columns = kPanelColumns};

}  // namespace dmlcpu
