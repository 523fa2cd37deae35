// float_product.h for AVX2 with FMA: 64 sums in eight registers, which hide the latency of a step; then 8 by a mask.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kLanes = 8, kVectors = 8;

void accumulate(const FloatProductRow& row) noexcept {
  std::size_t column = 0;
  for (; column + kLanes * kVectors <= row.n; column += kLanes * kVectors) {
    __m256 sum_f32x8[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) sum_f32x8[v] = _mm256_loadu_ps(row.sums + column + v * kLanes);
    for (std::size_t k = 0; k < row.k; ++k) {
      const __m256 a_f32x8 = _mm256_set1_ps(row.a[k]);
      const float* b = row.b + k * row.b_row_stride + column;
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum_f32x8[v] = _mm256_fmadd_ps(a_f32x8, _mm256_loadu_ps(b + v * kLanes), sum_f32x8[v]);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) _mm256_storeu_ps(row.sums + column + v * kLanes, sum_f32x8[v]);
  }
  for (; column < row.n; column += kLanes) {
    const auto left = static_cast<int>(row.n - column < kLanes ? row.n - column : kLanes);
    const __m256i mask_i32x8 = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256 sum_f32x8 = _mm256_maskload_ps(row.sums + column, mask_i32x8);
    for (std::size_t k = 0; k < row.k; ++k) {
      const __m256 b_f32x8 = _mm256_maskload_ps(row.b + k * row.b_row_stride + column, mask_i32x8);
      sum_f32x8 = _mm256_fmadd_ps(_mm256_set1_ps(row.a[k]), b_f32x8, sum_f32x8);
    }
    _mm256_maskstore_ps(row.sums + column, mask_i32x8, sum_f32x8);
  }
}

}  // namespace

constinit const FloatProductKernels avx2::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
