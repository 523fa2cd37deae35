// softmax.h for AVX-512: 16 lanes. Rows of codes are bound by looking their exponentials up: by permutations of
// registers, of which a row needs the fewer the less its codes differ, as gathers take 34 cycles on AMD's Zen 4. Rows
// of floats are bound by the arithmetic of the exponential.
#include <immintrin.h>

#include "kernels/softmax/softmax.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/softmax_codes_avx512_vnni.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"
// after the functions
#include "kernels/softmax/float_row.inl.h"
#include "kernels/softmax/sums_of_powers.inl.h"

// The first values of a table, 32 * pairs of them, held in registers: vpermi2ps looks five bits of a place up in two of
// them, the other bits choose between the results.
template <std::size_t pairs>
struct Table {
  __m512 part_f32x16[2 * pairs];

  explicit Table(const float* values) noexcept {
    for (std::size_t i = 0; i < 2 * pairs; ++i) part_f32x16[i] = _mm512_loadu_ps(values + 16 * i);
  }

  __m512 look_up(__m512i places_i32x16) const noexcept {
    __m512 values_f32x16[pairs];
    for (std::size_t i = 0; i < pairs; ++i) {
      values_f32x16[i] = _mm512_permutex2var_ps(part_f32x16[2 * i], places_i32x16, part_f32x16[2 * i + 1]);
    }
    for (std::size_t bit = 32, left = pairs / 2; left > 0; bit *= 2, left /= 2) {
      const __mmask16 upper = _mm512_test_epi32_mask(places_i32x16, _mm512_set1_epi32(static_cast<int>(bit)));
      for (std::size_t i = 0; i < left; ++i) {
        values_f32x16[i] = _mm512_mask_mov_ps(values_f32x16[2 * i], upper, values_f32x16[2 * i + 1]);
      }
    }
    return values_f32x16[0];
  }
};

// Of all lanes, in units of exponentials.
std::int64_t total(const SumsOfPowers& sums) noexcept {
  const std::int64_t high = _mm512_reduce_add_epi32(_mm512_cvtps_epi32(sums.high_units()));
  return (high << 16) + _mm512_reduce_add_epi32(_mm512_cvtps_epi32(sums.low_units()));
}

// For rows whose codes differ by less than 32 * pairs.
template <std::size_t pairs>
float sum_of_powers(const CodeSoftmaxRow& row, std::uint8_t maximum) noexcept {
  constexpr std::size_t kMostAtOnce = SumsOfPowers::kMost * kLanes;
  const Table<pairs> exponentials(row.exponentials);
  const __m128i maximum_u8x16 = _mm_set1_epi8(static_cast<char>(maximum));
  const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  std::int64_t sum = 0;
  SumsOfPowers sums;
  const auto add = [&](std::size_t i, __mmask16 mask) __attribute__((always_inline)) {
    const __m128i codes_u8x16 = _mm_xor_si128(_mm_maskz_loadu_epi8(mask, row.input + i), flip_u8x16);
    const __m128i below_u8x16 = _mm_sub_epi8(maximum_u8x16, codes_u8x16);
    const __m512 power_f32x16 = _mm512_maskz_mov_ps(mask, exponentials.look_up(_mm512_cvtepu8_epi32(below_u8x16)));
    sums.add(power_f32x16);
    if (row.powers != nullptr) _mm512_mask_storeu_ps(row.powers + i, mask, power_f32x16);
  };
  for (std::size_t i = 0; i < row.count;) {
    const std::size_t end = row.count - i < kMostAtOnce ? row.count : i + kMostAtOnce;
    for (; i + 16 <= end; i += 16) add(i, kAllLanes);
    if (i < end) add(i, lane_mask(end - i));
    i = end;
    sum += total(sums);
    sums = {};
  }
  return static_cast<float>(sum) * kExponentialUnit;
}

CodeSoftmaxSum code_sum(const CodeSoftmaxRow& row) noexcept {
  const CodeRange range = range_of(row.input, row.count, row.input_flip);
  const int widest = range.maximum - range.minimum;
  const auto sum = widest < 64 ? sum_of_powers<2> : widest < 128 ? sum_of_powers<4> : sum_of_powers<8>;
  return {range.maximum, sum(row, range.maximum)};
}

template <bool by_reciprocal>
void write_codes(const CodeShares& run) noexcept {
  const __m512 sum_f32x16 = _mm512_set1_ps(run.sum), scale_f32x16 = _mm512_set1_ps(run.output_scale);
  const Reciprocal of_scale = reciprocal_of(run.output_scale), of_sum = reciprocal_of(run.sum);
  const SumReciprocal by_sum = {sum_f32x16, of_sum.reciprocal_f32x16, of_sum.rest_f32x16};
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_flip));
  const auto unsaturated = [&](std::size_t i, __mmask16 mask) {
    const __m512 power_f32x16 = _mm512_maskz_loadu_ps(mask, run.powers + i);
    const __m512 scaled_f32x16 = by_reciprocal ? bounded_quotient(by_sum.quotient(power_f32x16), of_scale)
                                               : bounded(power_f32x16 / sum_f32x16 / scale_f32x16);
    return to_unsaturated(scaled_f32x16, zero_point_i32x16);
  };
  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    const __m512i codes_u8x64 = saturate_in_order(unsaturated(i, kAllLanes), unsaturated(i + 16, kAllLanes),
                                                  unsaturated(i + 32, kAllLanes), unsaturated(i + 48, kAllLanes));
    _mm512_storeu_si512(run.output + i, _mm512_xor_si512(codes_u8x64, flip_u8x64));
  }
  for (; i < run.count; i += 16) {
    const __mmask16 mask = lane_mask(run.count - i);
    store_tail(run.output + i, mask, unsaturated(i, mask), flip_u8x64);
  }
}

void write_shares(const CodeShares& run) noexcept {
  reciprocal_applies(run.output_scale) ? write_codes<true>(run) : write_codes<false>(run);
}

// The shares of 16 rows, or of the masked ones, of their powers and sums.
template <bool by_reciprocal>
inline void write_column_codes(const CodeSoftmaxColumns& columns, std::size_t j, __mmask16 mask, const Floats* powers,
                               Floats sum) noexcept {
  const __m512 scale_f32x16 = spread(columns.output_scale);
  const Reciprocal of_scale = reciprocal_of(columns.output_scale), of_sum = reciprocal_of(sum);
  const SumReciprocal by_sum = {sum, of_sum.reciprocal_f32x16, of_sum.rest_f32x16};
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(columns.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(columns.output_flip));
  std::uint8_t* output = columns.output + j;
  const std::int64_t step = columns.output_step;
  const std::size_t count = columns.count;
  for (std::size_t i = 0; i < count; ++i, output += step) {
    const __m512 scaled_f32x16 = by_reciprocal ? bounded_quotient(by_sum.quotient(powers[i]), of_scale)
                                               : bounded(powers[i] / sum / scale_f32x16);
    store_tail(output, mask, to_unsaturated(scaled_f32x16, zero_point_i32x16), flip_u8x64);
  }
}

constexpr std::size_t kColumns = 64;

// 16 rows from j on, whose codes are less than the largest by what `below` has, below 32 * pairs.
template <std::size_t pairs>
void write_columns_of(const CodeSoftmaxColumns& columns, std::size_t j, const std::uint8_t* below) noexcept {
  const Table<pairs> exponentials(columns.exponentials);
  Floats powers[kMostSoftmaxColumnElements];
  SumsOfPowers sums;
  for (std::size_t i = 0; i < columns.count; ++i) {
    const __m128i below_u8x16 = _mm_load_si128(reinterpret_cast<const __m128i*>(below + i * kColumns));
    powers[i] = exponentials.look_up(_mm512_cvtepu8_epi32(below_u8x16));
    sums.add(powers[i]);
  }
  const __mmask16 mask = lane_mask(columns.rows - j);
  reciprocal_applies(columns.output_scale) ? write_column_codes<true>(columns, j, mask, powers, sums.rounded())
                                           : write_column_codes<false>(columns, j, mask, powers, sums.rounded());
}

void write_columns(const CodeSoftmaxColumns& operands) noexcept {
  const CodeSoftmaxColumns columns = operands;  // a copy: the output could alias the original
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(columns.input_flip));
  for (std::size_t j = 0; j < columns.rows; j += kColumns) {
    const std::size_t rows = columns.rows - j;
    const __mmask64 mask = rows >= kColumns ? ~__mmask64{0} : (__mmask64{1} << rows) - 1;
    alignas(64) std::uint8_t below[kMostSoftmaxColumnElements * kColumns];
    const std::uint8_t* input = columns.input + j;
    __m512i maximum_u8x64 = _mm512_setzero_si512(), bits_u8x64 = _mm512_setzero_si512();
    for (std::size_t i = 0; i < columns.count; ++i, input += columns.input_step) {
      const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, input), flip_u8x64);
      maximum_u8x64 = _mm512_max_epu8(maximum_u8x64, codes_u8x64);
      _mm512_store_si512(below + i * kColumns, codes_u8x64);
    }
    for (std::size_t i = 0; i < columns.count; ++i) {
      const __m512i codes_u8x64 = _mm512_load_si512(below + i * kColumns);
      const __m512i below_u8x64 = _mm512_sub_epi8(maximum_u8x64, codes_u8x64);
      bits_u8x64 = _mm512_or_si512(bits_u8x64, below_u8x64);
      _mm512_store_si512(below + i * kColumns, below_u8x64);
    }
    const bool from_64 = _mm512_test_epi8_mask(bits_u8x64, _mm512_set1_epi8(-64)) != 0;
    const bool from_128 = _mm512_movepi8_mask(bits_u8x64) != 0;
    const auto write = !from_64 ? write_columns_of<2> : !from_128 ? write_columns_of<4> : write_columns_of<8>;
    for (std::size_t k = 0; k < kColumns && k < rows; k += kLanes) write(columns, j + k, below + k);
  }
}

}  // namespace

constinit const SoftmaxKernels avx512_vnni::softmax = {.floats = softmax_floats,
                                                       .logarithms = softmax_logarithms,
                                                       .columns = softmax_columns,
                                                       .logarithm_columns = softmax_logarithm_columns,
                                                       .code_sum = code_sum,
                                                       .shares = write_shares,
                                                       .code_columns = write_columns};

}  // namespace dmlcpu
