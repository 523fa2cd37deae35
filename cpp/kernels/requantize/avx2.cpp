// requantize.h for AVX2: rows one after the other, 32 codes a step from four vectors of 8, the rest 8 at a time. Bound
// by arithmetic (about 8 instructions for 8 codes) while the operands are in cache.
#include <immintrin.h>

#include <cstring>

#include "kernels/requantize/requantize.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"

// The first n of eight values, 1 <= n <= 8.
inline __m256i load(const std::int32_t* values, std::size_t n) noexcept {
  return n == 8 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values))
                : _mm256_maskload_epi32(values, lane_mask(n));
}
inline __m256 load(const float* values, std::size_t n) noexcept {
  return n == 8 ? _mm256_loadu_ps(values) : _mm256_maskload_ps(values, lane_mask(n));
}

template <bool filter_has_zero_point>
void requantize_row(const RequantizeBlock& block, std::size_t row) noexcept {
  const std::int32_t* accumulators = block.accumulators + row * block.accumulator_row_stride;
  std::uint8_t* output = block.output + row * block.output_row_stride;
  const std::int32_t *offset = block.offset, *filter_zero_point = block.filter_zero_point;
  const float* multiplier = block.multiplier;
  const std::size_t columns = block.columns;
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(block.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));

  const auto unsaturated = [&](std::size_t column, std::size_t n) {
    const __m256i accumulator_i32x8 = load(accumulators + column, n);
    __m256i sum_i32x8 = _mm256_add_epi32(accumulator_i32x8, load(offset + column, n));
    if constexpr (filter_has_zero_point) {
      const __m256i filter_i32x8 = load(filter_zero_point + column, n);
      const __m256i activation_i32x8 = _mm256_set1_epi32(block.activation_sum[row]);
      sum_i32x8 = _mm256_sub_epi32(sum_i32x8, _mm256_mullo_epi32(filter_i32x8, activation_i32x8));
    }
    const __m256 multiplier_f32x8 = load(multiplier + column, n);
    const __m256 scaled_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_i32x8), multiplier_f32x8);
    return to_unsaturated(bounded(scaled_f32x8), zero_point_i32x8);
  };

  std::size_t column = 0;
  for (; column + 32 <= columns; column += 32) {
    const __m256i codes_u8x32 = saturate_in_order(unsaturated(column, 8), unsaturated(column + 8, 8),
                                                  unsaturated(column + 16, 8), unsaturated(column + 24, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + column), _mm256_xor_si256(codes_u8x32, flip_u8x32));
  }
  for (; column < columns; column += 8) {
    const std::size_t n = columns - column < 8 ? columns - column : 8;
    store_tail(output + column, n, unsaturated(column, n), flip_u8x32);
  }
}

void requantize_rows(const RequantizeBlock& block) noexcept {
  if (block.filter_zero_point != nullptr) {
    for (std::size_t row = 0; row < block.rows; ++row) requantize_row<true>(block, row);
  } else {
    for (std::size_t row = 0; row < block.rows; ++row) requantize_row<false>(block, row);
  }
}

}  // namespace

constinit const RequantizeKernels avx2::requantize = {.run = requantize_rows};

}  // namespace dmlcpu
