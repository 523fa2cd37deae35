// rescale.h for AVX2: 8 sums a step, the rest by a mask or through buffers of 8.
#include <immintrin.h>

#include <cstring>

#include "kernels/rescale/rescale.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/half.inl.h"

constexpr std::size_t kLanes = 8;

// The first count of eight lanes, all of them from 8 on.
inline __m256i mask_of(std::size_t count) noexcept { return lane_mask(count < kLanes ? count : kLanes); }

class Row {
 public:
  Row(const RescaleBlock& block, std::size_t row) noexcept
      : sums_(block.sums + row * block.sums_row_stride),
        column_sum_(block.row_zero_point == nullptr ? nullptr : block.column_sum),
        zero_point_i32x8_(_mm256_set1_epi32(block.row_zero_point == nullptr ? 0 : block.row_zero_point[row])) {}

  __m256i total(std::size_t column, __m256i mask_i32x8) const noexcept {
    const __m256i sum_i32x8 = _mm256_maskload_epi32(sums_ + column, mask_i32x8);
    if (column_sum_ == nullptr) return sum_i32x8;
    const __m256i column_i32x8 = _mm256_maskload_epi32(column_sum_ + column, mask_i32x8);
    return _mm256_sub_epi32(sum_i32x8, _mm256_mullo_epi32(zero_point_i32x8_, column_i32x8));
  }

 private:
  const std::int32_t *sums_, *column_sum_;
  __m256i zero_point_i32x8_;
};

void to_sums(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    std::int32_t* output = static_cast<std::int32_t*>(block.output) + r * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; column += kLanes) {
      const __m256i mask_i32x8 = mask_of(block.n - column);
      _mm256_maskstore_epi32(output + column, mask_i32x8, row.total(column, mask_i32x8));
    }
  }
}

void to_codes(const RescaleBlock& block) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const __m256 row_f32x8 = _mm256_set1_ps(block.row_multiplier[r]);
    const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(block.row_output_zero_point[r]));
    std::uint8_t* output = static_cast<std::uint8_t*>(block.output) + r * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; column += kLanes) {
      const std::size_t count = block.n - column < kLanes ? block.n - column : kLanes;
      const __m256i mask_i32x8 = mask_of(count);
      const __m256 column_f32x8 = _mm256_maskload_ps(block.column_multiplier + column, mask_i32x8);
      const __m256 total_f32x8 = _mm256_cvtepi32_ps(row.total(column, mask_i32x8));
      const __m256 scaled_f32x8 = _mm256_mul_ps(total_f32x8, _mm256_mul_ps(row_f32x8, column_f32x8));
      store_tail(output + column, count, to_unsaturated(bounded(scaled_f32x8), zero_point_i32x8), flip_u8x32);
    }
  }
}

// The first count of eight values.
inline __m256 load(const float* values, std::size_t count) noexcept {
  return _mm256_maskload_ps(values, mask_of(count));
}
inline __m256 load(const Half* values, std::size_t count) noexcept {
  alignas(16) Half held[kLanes] = {};
  std::memcpy(held, values, count * sizeof(Half));
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(held)));
}
inline void store(float* output, std::size_t count, __m256 value_f32x8) noexcept {
  _mm256_maskstore_ps(output, mask_of(count), value_f32x8);
}
inline void store(Half* output, std::size_t count, __m256 value_f32x8) noexcept {
  alignas(16) Half held[kLanes];
  _mm_store_si128(reinterpret_cast<__m128i*>(held),
                  _mm256_cvtps_ph(value_f32x8, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  std::memcpy(output, held, count * sizeof(Half));
}

inline __m256 with_one_nan(__m256 value_f32x8) noexcept {
  const __m256 is_nan = _mm256_cmp_ps(value_f32x8, value_f32x8, _CMP_UNORD_Q);
  return _mm256_blendv_ps(value_f32x8, _mm256_set1_ps(__builtin_nanf("")), is_nan);
}

template <class Output, bool has_bias>
void to_floats(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const __m256 row_f32x8 = _mm256_set1_ps(block.row_multiplier[r]);
    const Output* bias = has_bias ? static_cast<const Output*>(block.bias) + r * block.bias_row_stride : nullptr;
    Output* output = static_cast<Output*>(block.output) + r * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; column += kLanes) {
      const std::size_t count = block.n - column < kLanes ? block.n - column : kLanes;
      const __m256i mask_i32x8 = mask_of(count);
      const __m256 column_f32x8 = _mm256_maskload_ps(block.column_multiplier + column, mask_i32x8);
      const __m256 multiplier_f32x8 = _mm256_mul_ps(row_f32x8, column_f32x8);
      const __m256 total_f32x8 = _mm256_cvtepi32_ps(row.total(column, mask_i32x8));
      const __m256 scaled_f32x8 = has_bias ? _mm256_fmadd_ps(total_f32x8, multiplier_f32x8, load(bias + column, count))
                                           : _mm256_mul_ps(total_f32x8, multiplier_f32x8);
      store(output + column, count, with_one_nan(scaled_f32x8));
    }
  }
}

template <class Output>
void with_or_without_bias(const RescaleBlock& block) noexcept {
  (block.bias != nullptr ? to_floats<Output, true> : to_floats<Output, false>)(block);
}

template <bool has_bias>
inline __m256 scaled_vector(__m256i sum_i32x8, __m256 multiplier_f32x8, __m256 bias_f32x8) noexcept {
  const __m256 scaled_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(sum_i32x8), multiplier_f32x8);
  return has_bias ? _mm256_add_ps(scaled_f32x8, bias_f32x8) : scaled_f32x8;
}

// The first count of eight sums, or all of them from eight on.
template <bool has_bias>
inline void scale_vector(const std::int32_t* sums, __m256 multiplier_f32x8, __m256 bias_f32x8, std::size_t count,
                         float* output) noexcept {
  if (count >= kLanes) {
    const __m256i sum_i32x8 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
    _mm256_storeu_ps(output, scaled_vector<has_bias>(sum_i32x8, multiplier_f32x8, bias_f32x8));
    return;
  }
  const __m256i mask_i32x8 = mask_of(count), sum_i32x8 = _mm256_maskload_epi32(sums, mask_i32x8);
  store(output, count, scaled_vector<has_bias>(sum_i32x8, multiplier_f32x8, bias_f32x8));
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
    for (std::size_t column = 0; column < block.n; column += kLanes) {
      const std::size_t count = block.n - column;
      const __m256 multiplier_f32x8 = load(block.multiplier + column, count);
      const __m256 bias_f32x8 = has_bias ? load(block.bias + column, count) : _mm256_setzero_ps();
      for (std::size_t row = first; row < end; ++row) {
        scale_vector<has_bias>(sums + row * block.sums_row_stride + column, multiplier_f32x8, bias_f32x8, count,
                               output + row * block.output_row_stride + column);
      }
    }
  }
}

// Rows shorter than two vectors, without gaps: multiplier and bias repeat after eight of them.
template <bool has_bias>
void scale_short_rows(const ScaleColumnsBlock& block) noexcept {
  float multiplier[15 * kLanes], bias[15 * kLanes];
  const std::size_t period = block.n * kLanes, count = block.m * block.n;
  for (std::size_t i = 0; i < (count < period ? count : period); i += block.n) {
    for (std::size_t column = 0; column < block.n; ++column) {
      multiplier[i + column] = block.multiplier[column];
      if (has_bias) bias[i + column] = block.bias[column];
    }
  }
  for (std::size_t run = 0; run < block.runs; ++run) {
    const std::int32_t* sums = block.sums + run * block.sums_run_stride;
    float* output = block.output + run * block.output_run_stride;
    for (std::size_t i = 0, place = 0; i < count; i += kLanes, place = place + kLanes == period ? 0 : place + kLanes) {
      scale_vector<has_bias>(sums + i, load(multiplier + place, count - i),
                             has_bias ? load(bias + place, count - i) : _mm256_setzero_ps(), count - i, output + i);
    }
  }
}

void scale_columns(const ScaleColumnsBlock& block) noexcept {
  constexpr std::size_t kLeastRows = 4;  // of which repeated multipliers pay
  const bool are_short = block.n < 2 * kLanes && block.m >= kLeastRows && block.sums_row_stride == block.n &&
                         block.output_row_stride == block.n;
  if (are_short) return (block.bias != nullptr ? scale_short_rows<true> : scale_short_rows<false>)(block);
  for (std::size_t run = 0; run < block.runs; ++run) {
    (block.bias != nullptr ? scale_rows<true> : scale_rows<false>)(block, run);
  }
}

}  // namespace

constinit const RescaleKernels avx2::rescale = {.to_sums = to_sums,
                                                .to_codes = to_codes,
                                                .to_float32 = with_or_without_bias<float>,
                                                .to_float16 = with_or_without_bias<Half>,
                                                .scale_columns = scale_columns};

}  // namespace dmlcpu
