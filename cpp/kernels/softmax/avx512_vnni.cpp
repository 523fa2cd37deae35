// softmax.h for AVX-512: 16 lanes. Rows of codes look their exponentials up by gathers, and are bound by these and,
// where they are short, by the divider; rows of floats by the arithmetic of the exponential.
#include <immintrin.h>

#include <cstring>

#include "kernels/softmax/softmax.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
#include "kernels/lanes/steps.inl.h"
// after the functions
#include "kernels/softmax/float_row.inl.h"

std::uint8_t maximum_code(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  __m512i maximum_u8x64 = _mm512_setzero_si512();
  for (std::size_t i = 0; i < count; i += 64) {
    const __mmask64 mask = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, codes + i), flip_u8x64);
    maximum_u8x64 = _mm512_mask_max_epu8(maximum_u8x64, mask, maximum_u8x64, codes_u8x64);
  }
  const __m256i half_u8x32 =
      _mm256_max_epu8(_mm512_castsi512_si256(maximum_u8x64), _mm512_extracti64x4_epi64(maximum_u8x64, 1));
  const __m128i quarter_u8x16 =
      _mm_max_epu8(_mm256_castsi256_si128(half_u8x32), _mm256_extracti128_si256(half_u8x32, 1));
  // 255 minus the largest is the smallest of the inverted ones, pairs first.
  const __m128i inverted_u8x16 = _mm_xor_si128(quarter_u8x16, _mm_set1_epi8(-1));
  const __m128i pairs_u16x8 = _mm_min_epu8(inverted_u8x16, _mm_srli_epi16(inverted_u8x16, 8));
  return static_cast<std::uint8_t>(255 - (_mm_cvtsi128_si32(_mm_minpos_epu16(pairs_u16x8)) & 255));
}

// The exponentials of the masked codes; 0 in the other lanes.
inline __m512 powers(const CodeSoftmaxRow& row, std::size_t i, __mmask16 mask, __m512i maximum_i32x16) noexcept {
  const __m128i flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  const __m128i codes_u8x16 = _mm_xor_si128(_mm_maskz_loadu_epi8(mask, row.input + i), flip_u8x16);
  const __m512i differences_i32x16 = _mm512_sub_epi32(maximum_i32x16, _mm512_cvtepu8_epi32(codes_u8x16));
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, differences_i32x16, row.exponentials, 4);
}

CodeSoftmaxSum code_sum(const CodeSoftmaxRow& row) noexcept {
  const std::uint8_t maximum = maximum_code(row.input, row.count, row.input_flip);
  const __m512i maximum_i32x16 = _mm512_set1_epi32(maximum);
  Floats sums[1] = {spread(0.0f)};
  for (std::size_t i = 0; i < row.count; i += 16) {
    const __mmask16 mask = lane_mask(row.count - i);
    const __m512 power_f32x16 = powers(row, i, mask, maximum_i32x16);
    sums[0] = sums[0] + power_f32x16;
    if (row.powers != nullptr) _mm512_mask_storeu_ps(row.powers + i, mask, power_f32x16);
  }
  return {maximum, folded(sums)};
}

template <bool by_reciprocal>
void write_codes(const CodeShares& run) noexcept {
  const __m512 sum_f32x16 = _mm512_set1_ps(run.sum), scale_f32x16 = _mm512_set1_ps(run.output_scale);
  const Reciprocal reciprocal = reciprocal_of(run.output_scale);
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_flip));
  for (std::size_t i = 0; i < run.count; i += 16) {
    const __mmask16 mask = lane_mask(run.count - i);
    const __m512 share_f32x16 = _mm512_maskz_loadu_ps(mask, run.powers + i) / sum_f32x16;
    const __m512 scaled_f32x16 =
        by_reciprocal ? bounded_quotient(share_f32x16, reciprocal) : bounded(share_f32x16 / scale_f32x16);
    store_tail(run.output + i, mask, to_unsaturated(scaled_f32x16, zero_point_i32x16), flip_u8x64);
  }
}

void write_shares(const CodeShares& run) noexcept {
  reciprocal_applies(run.output_scale) ? write_codes<true>(run) : write_codes<false>(run);
}

}  // namespace

constinit const SoftmaxKernels avx512_vnni::softmax = {
    .floats = softmax_floats, .code_sum = code_sum, .shares = write_shares};

}  // namespace dmlcpu
