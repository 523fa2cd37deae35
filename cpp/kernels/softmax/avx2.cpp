// softmax.h for AVX2: 8 lanes. Rows of codes look their exponentials up by gathers, and are bound by these and, where
// they are short, by the divider; rows of floats by the arithmetic of the exponential.
#include <immintrin.h>

#include <cstring>

#include "kernels/softmax/softmax.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/lanes/avx2.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"
// after the functions
#include "kernels/softmax/float_row.inl.h"
#include "kernels/softmax/sums_of_powers.inl.h"

std::uint8_t maximum_code(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  __m256i maximum_u8x32 = _mm256_setzero_si256();
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i codes_u8x32 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    maximum_u8x32 = _mm256_max_epu8(maximum_u8x32, _mm256_xor_si256(codes_u8x32, flip_u8x32));
  }
  // 255 minus the largest is the smallest of the inverted ones, pairs first.
  __m128i smallest_u8x16 = _mm256_castsi256_si128(maximum_u8x32);
  smallest_u8x16 = _mm_max_epu8(smallest_u8x16, _mm256_extracti128_si256(maximum_u8x32, 1));
  smallest_u8x16 = _mm_xor_si128(smallest_u8x16, _mm_set1_epi8(-1));
  smallest_u8x16 = _mm_min_epu8(smallest_u8x16, _mm_srli_epi16(smallest_u8x16, 8));
  auto maximum = static_cast<std::uint8_t>(255 - (_mm_cvtsi128_si32(_mm_minpos_epu16(smallest_u8x16)) & 255));
  for (; i < count; ++i) {
    const auto code = static_cast<std::uint8_t>(codes[i] ^ flip);
    maximum = code > maximum ? code : maximum;
  }
  return maximum;
}

// The exponentials of count codes, 1 <= count <= 8; 0 in the other lanes.
inline __m256 powers(const CodeSoftmaxRow& row, std::size_t i, std::size_t count, __m128i maximum_u8x16) noexcept {
  std::uint64_t codes = 0;
  if (count == 8) {
    std::memcpy(&codes, row.input + i, 8);
  } else {
    std::memcpy(&codes, row.input + i, count);
  }
  const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  const __m128i codes_u8x16 = _mm_xor_si128(_mm_cvtsi64_si128(static_cast<long long>(codes)), flip_u8x16);
  // In bytes: in range even if another thread has written a larger code since the maximum was found.
  const __m256i below_i32x8 = _mm256_cvtepu8_epi32(_mm_sub_epi8(maximum_u8x16, codes_u8x16));
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), row.exponentials, below_i32x8,
                                  _mm256_castsi256_ps(lane_mask(count)), 4);
}

inline std::int32_t sum_of(__m256i lanes_i32x8) noexcept {
  const __m128i halves_i32x4 =
      _mm_add_epi32(_mm256_castsi256_si128(lanes_i32x8), _mm256_extracti128_si256(lanes_i32x8, 1));
  const __m128i pairs_i32x4 = _mm_hadd_epi32(halves_i32x4, halves_i32x4);
  return _mm_cvtsi128_si32(_mm_hadd_epi32(pairs_i32x4, pairs_i32x4));
}

// Of all lanes, in units of exponentials.
std::int64_t total(const SumsOfPowers& sums) noexcept {
  const std::int64_t high = sum_of(_mm256_cvtps_epi32(sums.high_units()));
  return (high << 16) + sum_of(_mm256_cvtps_epi32(sums.low_units()));
}

// Sums of up to 256 exponentials in each lane, as integers in their unit: modulo 2^32, and of all but the lowest bytes.
struct SumsOfUnits {
  static constexpr std::size_t kMost = 256;
  __m256i sum_u32x8 = _mm256_setzero_si256(), high_u32x8 = _mm256_setzero_si256();

  void add(__m256i units_u32x8) noexcept {
    sum_u32x8 = _mm256_add_epi32(sum_u32x8, units_u32x8);
    high_u32x8 = _mm256_add_epi32(high_u32x8, _mm256_srli_epi32(units_u32x8, 8));
  }

  // Of all lanes. The lowest bytes add up to 255 * 256 at most.
  std::int64_t total() const noexcept {
    const __m256i lowest_i32x8 = _mm256_sub_epi32(sum_u32x8, _mm256_slli_epi32(high_u32x8, 8));
    const __m256i even_u64x4 = _mm256_and_si256(high_u32x8, _mm256_set1_epi64x(0xffffffff));
    const __m256i pairs_u64x4 = _mm256_add_epi64(even_u64x4, _mm256_srli_epi64(high_u32x8, 32));
    const __m128i both_u64x2 =
        _mm_add_epi64(_mm256_castsi256_si128(pairs_u64x4), _mm256_extracti128_si256(pairs_u64x4, 1));
    const std::int64_t high = _mm_cvtsi128_si64(both_u64x2) + _mm_extract_epi64(both_u64x2, 1);
    return (high << 8) + sum_of(lowest_i32x8);
  }
};

// The sum of exponentials that are not kept, in their unit: as integers, which take fewer operations.
std::int64_t sum_of_units(const CodeSoftmaxRow& row, std::uint8_t maximum) noexcept {
  alignas(32) std::uint32_t units[256];
  const __m256 by_unit_f32x8 = _mm256_set1_ps(1.0F / kExponentialUnit);
  for (std::size_t i = 0; i < 256; i += kLanes) {  // 1 becomes 2^31, as what is too large is converted to 0x80000000
    const __m256i of_i_u32x8 = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(row.exponentials + i), by_unit_f32x8));
    _mm256_store_si256(reinterpret_cast<__m256i*>(units + i), of_i_u32x8);
  }
  const __m128i maximum_u8x16 = _mm_set1_epi8(static_cast<char>(maximum));
  const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  std::int64_t sum = 0;
  std::size_t i = 0;
  while (i + kLanes <= row.count) {
    const std::size_t left = row.count - i,
                      end = left < SumsOfUnits::kMost * kLanes ? row.count : i + SumsOfUnits::kMost * kLanes;
    SumsOfUnits sums;
    for (; i + kLanes <= end; i += kLanes) {
      const __m128i given_u8x16 = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.input + i));
      const __m128i below_u8x16 = _mm_sub_epi8(maximum_u8x16, _mm_xor_si128(given_u8x16, flip_u8x16));
      sums.add(_mm256_i32gather_epi32(reinterpret_cast<const int*>(units), _mm256_cvtepu8_epi32(below_u8x16), 4));
    }
    sum += sums.total();
  }
  for (; i < row.count; ++i) sum += units[static_cast<std::uint8_t>(maximum - (row.input[i] ^ row.input_flip))];
  return sum;
}

// The same of exponentials that are kept, which are floats.
std::int64_t sum_of_kept(const CodeSoftmaxRow& row, std::uint8_t maximum) noexcept {
  constexpr std::size_t kMostAtOnce = SumsOfPowers::kMost * kLanes;
  const __m128i maximum_u8x16 = _mm_set1_epi8(static_cast<char>(maximum));
  std::int64_t sum = 0;
  for (std::size_t begin = 0; begin < row.count; begin += kMostAtOnce) {
    const std::size_t count = row.count - begin < kMostAtOnce ? row.count - begin : kMostAtOnce;
    float* kept = row.powers + begin;
    SumsOfPowers sums;
    for_each_vector(count, [&](std::size_t i, std::size_t, std::size_t lanes) __attribute__((always_inline)) {
      const Floats power = powers(row, begin + i, lanes, maximum_u8x16);
      sums.add(power);
      lanes == kLanes ? store(kept + i, power) : store_first(kept + i, lanes, power);
    });
    sum += total(sums);
  }
  return sum;
}

CodeSoftmaxSum code_sum(const CodeSoftmaxRow& row) noexcept {
  const std::uint8_t maximum = maximum_code(row.input, row.count, row.input_flip);
  const std::int64_t sum = row.powers == nullptr ? sum_of_units(row, maximum) : sum_of_kept(row, maximum);
  return {maximum, static_cast<float>(sum) * kExponentialUnit};
}

// Quotients by the reciprocals of the sum and of the scale; kernels/codes/softmax_codes_avx512_vnni.inl.h has the
// proof.
template <bool by_reciprocal>
void write_codes(const CodeShares& run) noexcept {
  const Floats sum = spread(run.sum), scale = spread(run.output_scale);
  const Reciprocal of_scale = reciprocal_of(run.output_scale), of_sum = reciprocal_of(run.sum);
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.output_flip));
  const auto scaled = [&](__m256 power_f32x8) {
    if constexpr (!by_reciprocal) return bounded(power_f32x8 / sum / scale);
    const __m256 product_f32x8 = _mm256_mul_ps(power_f32x8, of_sum.rest_f32x8);
    const __m256 q0_f32x8 = _mm256_fmadd_ps(power_f32x8, of_sum.reciprocal_f32x8, product_f32x8);
    const __m256 rem_f32x8 = _mm256_fnmadd_ps(q0_f32x8, sum, power_f32x8);
    return bounded_quotient(_mm256_fmadd_ps(rem_f32x8, of_sum.reciprocal_f32x8, q0_f32x8), of_scale);
  };
  const auto unsaturated = [&](Floats power) __attribute__((always_inline)) {
    return to_unsaturated(scaled(power), zero_point_i32x8);
  };
  std::size_t i = 0;
  for (; i + 32 <= run.count; i += 32) {
    const float* from = run.powers + i;
    const __m256i codes_u8x32 = saturate_in_order(unsaturated(load(from)), unsaturated(load(from + 8)),
                                                  unsaturated(load(from + 16)), unsaturated(load(from + 24)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.output + i), _mm256_xor_si256(codes_u8x32, flip_u8x32));
  }
  for (; i < run.count; i += kLanes) {
    const std::size_t lanes = run.count - i < kLanes ? run.count - i : kLanes;
    const Floats power = lanes == kLanes ? load(run.powers + i) : load_first(run.powers + i, lanes, 0.0f);
    store_tail(run.output + i, lanes, unsaturated(power), flip_u8x32);
  }
}

void write_shares(const CodeShares& run) noexcept {
  reciprocal_applies(run.output_scale) ? write_codes<true>(run) : write_codes<false>(run);
}

// The shares of 8 rows, or of the first ones, of their powers and sums.
template <bool by_reciprocal>
inline void write_column_codes(const CodeSoftmaxColumns& columns, std::size_t j, const Floats* powers,
                               Floats sum) noexcept {
  const Floats scale = spread(columns.output_scale), reciprocal = spread(1.0f) / sum;
  const Floats rest = fused(negated(reciprocal), sum, spread(1.0f)) / sum;
  const Reciprocal of_scale = reciprocal_of(columns.output_scale);
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(columns.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(columns.output_flip));
  const std::size_t count = columns.count, lanes = columns.rows - j < kLanes ? columns.rows - j : kLanes;
  const std::int64_t step = columns.output_step;
  std::uint8_t* output = columns.output + j;
  const auto scaled = [&](Floats power) {
    if constexpr (!by_reciprocal) return bounded(power / sum / scale);
    const Floats q0 = fused(power, reciprocal, power * rest);
    return bounded_quotient(fused(fused(negated(q0), sum, power), reciprocal, q0), of_scale);
  };
  const auto unsaturated = [&](std::size_t i) __attribute__((always_inline)) {
    return to_unsaturated(scaled(powers[i]), zero_point_i32x8);
  };
  const auto store_half = [&](__m128i codes_u8x16) {  // of two places
    _mm_storel_epi64(reinterpret_cast<__m128i*>(output), codes_u8x16);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(output + step), _mm_unpackhi_epi64(codes_u8x16, codes_u8x16));
    output += 2 * step;
  };
  std::size_t i = 0;
  for (; lanes == kLanes && i + 4 <= count; i += 4) {
    const __m256i codes_u8x32 = _mm256_xor_si256(
        saturate_in_order(unsaturated(i), unsaturated(i + 1), unsaturated(i + 2), unsaturated(i + 3)), flip_u8x32);
    store_half(_mm256_castsi256_si128(codes_u8x32));
    store_half(_mm256_extracti128_si256(codes_u8x32, 1));
  }
  for (; i < count; ++i, output += step) store_tail(output, lanes, unsaturated(i), flip_u8x32);
}

// 8 rows from j on, or fewer.
void write_eight_columns(const CodeSoftmaxColumns& columns, std::size_t j) noexcept {
  const std::size_t lanes = columns.rows - j < kLanes ? columns.rows - j : kLanes;
  const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(columns.input_flip));
  const std::uint8_t* input = columns.input + j;
  __m128i codes_u8x16[kMostSoftmaxColumnElements], maximum_u8x16 = _mm_setzero_si128();
  for (std::size_t i = 0; i < columns.count; ++i, input += columns.input_step) {
    std::uint64_t codes = 0;
    lanes == kLanes ? std::memcpy(&codes, input, kLanes) : std::memcpy(&codes, input, lanes);
    codes_u8x16[i] = _mm_xor_si128(_mm_cvtsi64_si128(static_cast<long long>(codes)), flip_u8x16);
    maximum_u8x16 = _mm_max_epu8(maximum_u8x16, codes_u8x16[i]);
  }
  Floats powers[kMostSoftmaxColumnElements];
  SumsOfPowers sums;
  for (std::size_t i = 0; i < columns.count; ++i) {
    const __m256i below_i32x8 = _mm256_cvtepu8_epi32(_mm_sub_epi8(maximum_u8x16, codes_u8x16[i]));
    powers[i] = _mm256_i32gather_ps(columns.exponentials, below_i32x8, 4);
    sums.add(powers[i]);
  }
  reciprocal_applies(columns.output_scale) ? write_column_codes<true>(columns, j, powers, sums.rounded())
                                           : write_column_codes<false>(columns, j, powers, sums.rounded());
}

void write_columns(const CodeSoftmaxColumns& operands) noexcept {
  const CodeSoftmaxColumns columns = operands;  // a copy: the output could alias the original
  for (std::size_t j = 0; j < columns.rows; j += kLanes) write_eight_columns(columns, j);
}

}  // namespace

constinit const SoftmaxKernels avx2::softmax = {.floats = softmax_floats,
                                                .logarithms = softmax_logarithms,
                                                .columns = softmax_columns,
                                                .logarithm_columns = softmax_logarithm_columns,
                                                .code_sum = code_sum,
                                                .shares = write_shares,
                                                .code_columns = write_columns};

}  // namespace dmlcpu
