// float_product.h for AVX-512: 128 sums in eight registers, which hide the latency of a step; then 16 by a mask.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kLanes = 16, kVectors = 8;

void accumulate(const FloatProductRow& row) noexcept {
  std::size_t column = 0;
  for (; column + kLanes * kVectors <= row.n; column += kLanes * kVectors) {
    __m512 sum_f32x16[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) sum_f32x16[v] = _mm512_loadu_ps(row.sums + column + v * kLanes);
    for (std::size_t k = 0; k < row.k; ++k) {
      const __m512 a_f32x16 = _mm512_set1_ps(row.a[k]);
      const float* b = row.b + k * row.b_row_stride + column;
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum_f32x16[v] = _mm512_fmadd_ps(a_f32x16, _mm512_loadu_ps(b + v * kLanes), sum_f32x16[v]);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(row.sums + column + v * kLanes, sum_f32x16[v]);
  }
  for (; column < row.n; column += kLanes) {
    const std::size_t left = row.n - column;
    const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffffU : (1U << left) - 1);
    __m512 sum_f32x16 = _mm512_maskz_loadu_ps(mask, row.sums + column);
    for (std::size_t k = 0; k < row.k; ++k) {
      const __m512 b_f32x16 = _mm512_maskz_loadu_ps(mask, row.b + k * row.b_row_stride + column);
      sum_f32x16 = _mm512_fmadd_ps(_mm512_set1_ps(row.a[k]), b_f32x16, sum_f32x16);
    }
    _mm512_mask_storeu_ps(row.sums + column, mask, sum_f32x16);
  }
}

}  // namespace

constinit const FloatProductKernels avx512_vnni::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
