// rescale.h for AVX-512: 16 sums a step, the rest by a mask; codes 64 a step.
#include <immintrin.h>

#include <cstring>

#include "kernels/rescale/rescale.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/half.inl.h"

// One row: its terms, and where it is.
class Row {
 public:
  Row(const RescaleBlock& block, std::size_t row) noexcept
      : sums_(block.sums + row * block.sums_row_stride),
        column_sum_(block.row_zero_point == nullptr ? nullptr : block.column_sum),
        zero_point_i32x16_(_mm512_set1_epi32(block.row_zero_point == nullptr ? 0 : block.row_zero_point[row])) {}

  __m512i total(std::size_t column, __mmask16 mask) const noexcept {
    const __m512i sum_i32x16 = _mm512_maskz_loadu_epi32(mask, sums_ + column);
    if (column_sum_ == nullptr) return sum_i32x16;
    const __m512i column_i32x16 = _mm512_maskz_loadu_epi32(mask, column_sum_ + column);
    return _mm512_sub_epi32(sum_i32x16, _mm512_mullo_epi32(zero_point_i32x16_, column_i32x16));
  }

 private:
  const std::int32_t *sums_, *column_sum_;
  __m512i zero_point_i32x16_;
};

void to_sums(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    std::int32_t* output = static_cast<std::int32_t*>(block.output) + r * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; column += 16) {
      const __mmask16 mask = lane_mask(block.n - column);
      _mm512_mask_storeu_epi32(output + column, mask, row.total(column, mask));
    }
  }
}

void to_codes(const RescaleBlock& block) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(block.flip));
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const __m512 row_f32x16 = _mm512_set1_ps(block.row_multiplier[r]);
    const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(block.row_output_zero_point[r]));
    std::uint8_t* output = static_cast<std::uint8_t*>(block.output) + r * block.output_row_stride;
    const auto unsaturated = [&](std::size_t column, __mmask16 mask) {
      const __m512 column_f32x16 = _mm512_maskz_loadu_ps(mask, block.column_multiplier + column);
      const __m512 total_f32x16 = _mm512_cvtepi32_ps(row.total(column, mask));
      const __m512 scaled_f32x16 = _mm512_mul_ps(total_f32x16, _mm512_mul_ps(row_f32x16, column_f32x16));
      return to_unsaturated(bounded(scaled_f32x16), zero_point_i32x16);
    };
    std::size_t column = 0;
    for (; column + 64 <= block.n; column += 64) {
      const __m512i codes_u8x64 =
          saturate_in_order(unsaturated(column, kAllLanes), unsaturated(column + 16, kAllLanes),
                            unsaturated(column + 32, kAllLanes), unsaturated(column + 48, kAllLanes));
      _mm512_storeu_si512(output + column, _mm512_xor_si512(codes_u8x64, flip_u8x64));
    }
    for (; column < block.n; column += 16) {
      const __mmask16 mask = lane_mask(block.n - column);
      store_tail(output + column, mask, unsaturated(column, mask), flip_u8x64);
    }
  }
}

inline __m512 load(const float* values, __mmask16 mask) noexcept { return _mm512_maskz_loadu_ps(mask, values); }
inline __m512 load(const Half* values, __mmask16 mask) noexcept {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, values));
}
inline void store(float* output, __mmask16 mask, __m512 value_f32x16) noexcept {
  _mm512_mask_storeu_ps(output, mask, value_f32x16);
}
inline void store(Half* output, __mmask16 mask, __m512 value_f32x16) noexcept {
  const __m256i value_f16x16 = _mm512_cvtps_ph(value_f32x16, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_mask_storeu_epi16(output, mask, value_f16x16);
}

inline __m512 with_one_nan(__m512 value_f32x16) noexcept {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value_f32x16, value_f32x16, _CMP_UNORD_Q);
  return _mm512_mask_mov_ps(value_f32x16, is_nan, _mm512_set1_ps(__builtin_nanf("")));
}

template <class Output, bool has_bias>
void to_floats(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const __m512 row_f32x16 = _mm512_set1_ps(block.row_multiplier[r]);
    const Output* bias = has_bias ? static_cast<const Output*>(block.bias) + r * block.bias_row_stride : nullptr;
    Output* output = static_cast<Output*>(block.output) + r * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; column += 16) {
      const __mmask16 mask = lane_mask(block.n - column);
      const __m512 column_f32x16 = _mm512_maskz_loadu_ps(mask, block.column_multiplier + column);
      const __m512 multiplier_f32x16 = _mm512_mul_ps(row_f32x16, column_f32x16);
      const __m512 total_f32x16 = _mm512_cvtepi32_ps(row.total(column, mask));
      const __m512 scaled_f32x16 = has_bias
                                       ? _mm512_fmadd_ps(total_f32x16, multiplier_f32x16, load(bias + column, mask))
                                       : _mm512_mul_ps(total_f32x16, multiplier_f32x16);
      store(output + column, mask, with_one_nan(scaled_f32x16));
    }
  }
}

template <class Output>
void with_or_without_bias(const RescaleBlock& block) noexcept {
  (block.bias != nullptr ? to_floats<Output, true> : to_floats<Output, false>)(block);
}

template <bool has_bias>
inline void scale_vector(const std::int32_t* sums, __m512 multiplier_f32x16, __m512 bias_f32x16, __mmask16 mask,
                         float* output) noexcept {
  const __m512 sum_f32x16 = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, sums));
  const __m512 scaled_f32x16 = _mm512_mul_ps(sum_f32x16, multiplier_f32x16);
  store(output, mask, has_bias ? _mm512_add_ps(scaled_f32x16, bias_f32x16) : scaled_f32x16);
}

// A load waits for a store under a mask whose lanes reach into it, and those at the end of a row reach into the next:
// so columns of some rows come one after the other, not rows.
template <bool has_bias>
void scale_rows(const ScaleColumnsBlock& block, std::size_t run) noexcept {
  constexpr std::size_t kRowsAtOnce = 8;
  const std::int32_t* sums = block.sums + run * block.sums_run_stride;
  float* output = block.output + run * block.output_run_stride;
  for (std::size_t first = 0; first < block.m; first += kRowsAtOnce) {
    const std::size_t end = block.m - first < kRowsAtOnce ? block.m : first + kRowsAtOnce;
    for (std::size_t column = 0; column < block.n; column += 16) {
      const __mmask16 mask = lane_mask(block.n - column);
      const __m512 multiplier_f32x16 = load(block.multiplier + column, mask);
      const __m512 bias_f32x16 = has_bias ? load(block.bias + column, mask) : _mm512_setzero_ps();
      for (std::size_t row = first; row < end; ++row) {
        scale_vector<has_bias>(sums + row * block.sums_row_stride + column, multiplier_f32x16, bias_f32x16, mask,
                               output + row * block.output_row_stride + column);
      }
    }
  }
}

// Rows shorter than a vector, without gaps: multiplier and bias repeat after sixteen of them.
template <bool has_bias>
void scale_short_rows(const ScaleColumnsBlock& block) noexcept {
  float multiplier[15 * 16], bias[15 * 16];
  const std::size_t period = block.n * 16, count = block.m * block.n;
  for (std::size_t i = 0; i < (count < period ? count : period); i += block.n) {
    for (std::size_t column = 0; column < block.n; ++column) {
      multiplier[i + column] = block.multiplier[column];
      if (has_bias) bias[i + column] = block.bias[column];
    }
  }
  for (std::size_t run = 0; run < block.runs; ++run) {
    const std::int32_t* sums = block.sums + run * block.sums_run_stride;
    float* output = block.output + run * block.output_run_stride;
    for (std::size_t i = 0, place = 0; i < count; i += 16, place = place + 16 == period ? 0 : place + 16) {
      const __mmask16 mask = lane_mask(count - i);
      scale_vector<has_bias>(sums + i, load(multiplier + place, mask),
                             has_bias ? load(bias + place, mask) : _mm512_setzero_ps(), mask, output + i);
    }
  }
}

void scale_columns(const ScaleColumnsBlock& block) noexcept {
  constexpr std::size_t kLeastRows = 4;  // of which repeated multipliers pay
  const bool are_short =
      block.n < 16 && block.m >= kLeastRows && block.sums_row_stride == block.n && block.output_row_stride == block.n;
  if (are_short) return (block.bias != nullptr ? scale_short_rows<true> : scale_short_rows<false>)(block);
  for (std::size_t run = 0; run < block.runs; ++run) {
    (block.bias != nullptr ? scale_rows<true> : scale_rows<false>)(block, run);
  }
}

}  // namespace

constinit const RescaleKernels avx512_vnni::rescale = {.to_sums = to_sums,
                                                       .to_codes = to_codes,
                                                       .to_float32 = with_or_without_bias<float>,
                                                       .to_float16 = with_or_without_bias<Half>,
                                                       .scale_columns = scale_columns};

}  // namespace dmlcpu
