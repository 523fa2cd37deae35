// requantize.h for AVX-512: rows one after the other, 64 codes a step from four vectors of 16, the rest 16 at a time by
// masks. Bound by arithmetic on two ports (about 8 instructions for 16 codes) while the operands are in cache.
#include <immintrin.h>

#include "kernels/requantize/requantize.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

template <bool filter_has_zero_point>
void requantize_row(const RequantizeBlock& block, std::size_t row) noexcept {
  const std::int32_t* accumulators = block.accumulators + row * block.accumulator_row_stride;
  std::uint8_t* output = block.output + row * block.output_row_stride;
  const std::int32_t *offset = block.offset, *filter_zero_point = block.filter_zero_point;
  const float* multiplier = block.multiplier;
  const std::size_t columns = block.columns;
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(block.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(block.flip));

  const auto unsaturated = [&](std::size_t column, __mmask16 mask) {
    const __m512i accumulator_i32x16 = _mm512_maskz_loadu_epi32(mask, accumulators + column);
    __m512i sum_i32x16 = _mm512_add_epi32(accumulator_i32x16, _mm512_maskz_loadu_epi32(mask, offset + column));
    if constexpr (filter_has_zero_point) {
      const __m512i filter_i32x16 = _mm512_maskz_loadu_epi32(mask, filter_zero_point + column);
      const __m512i activation_i32x16 = _mm512_set1_epi32(block.activation_sum[row]);
      sum_i32x16 = _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(filter_i32x16, activation_i32x16));
    }
    const __m512 multiplier_f32x16 = _mm512_maskz_loadu_ps(mask, multiplier + column);
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16), multiplier_f32x16);
    return to_unsaturated(bounded(scaled_f32x16), zero_point_i32x16);
  };

  std::size_t column = 0;
  for (; column + 64 <= columns; column += 64) {
    const __m512i codes_u8x64 =
        saturate_in_order(unsaturated(column, kAllLanes), unsaturated(column + 16, kAllLanes),
                          unsaturated(column + 32, kAllLanes), unsaturated(column + 48, kAllLanes));
    _mm512_storeu_si512(output + column, _mm512_xor_si512(codes_u8x64, flip_u8x64));
  }
  for (; column < columns; column += 16) {
    const __mmask16 mask = lane_mask(columns - column);
    store_tail(output + column, mask, unsaturated(column, mask), flip_u8x64);
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

constinit const RequantizeKernels avx512_vnni::requantize = {.run = requantize_rows};

}  // namespace dmlcpu
