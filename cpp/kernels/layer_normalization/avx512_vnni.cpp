// layer_normalization.h for AVX-512: 16 lanes, the rest by one mask.
#include <immintrin.h>

#include <cstring>

#include "kernels/layer_normalization/layer_normalization.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/lanes/steps.inl.h"
// after the steps
#include "kernels/layer_normalization/float_row.inl.h"

// The squares of 32 codes, as sums of two: at most 2 * 255^2 each.
inline __m512i squares_of(__m256i codes_u8x32) noexcept {
  const __m512i codes_i16x32 = _mm512_cvtepu8_epi16(codes_u8x32);
  return _mm512_madd_epi16(codes_i16x32, codes_i16x32);
}

inline __m512i widened_sum(__m512i x_u32x16) noexcept {
  return _mm512_add_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(x_u32x16)),
                          _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(x_u32x16, 1)));
}

CodeMoments code_moments(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  // A lane of 32 bits takes 2 * 2 * 255^2 a step: 2^13 steps stay below 2^31.
  constexpr std::size_t kStepCodes = 64, kBlockCodes = kStepCodes << 13;
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip)), zero_u8x64 = _mm512_setzero_si512();
  __m512i sums_u64x8 = zero_u8x64, squares_u64x8 = zero_u8x64;
  for (std::size_t i = 0; i < count;) {
    const std::size_t end = count - i < kBlockCodes ? count : i + kBlockCodes;
    __m512i squares_i32x16 = zero_u8x64;
    for (; i < end; i += kStepCodes) {
      const __mmask64 mask = end - i >= kStepCodes ? ~__mmask64{0} : (__mmask64{1} << (end - i)) - 1;
      const __m512i codes_u8x64 =
          _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, codes + i), flip_u8x64));
      sums_u64x8 = _mm512_add_epi64(sums_u64x8, _mm512_sad_epu8(codes_u8x64, zero_u8x64));
      squares_i32x16 = _mm512_add_epi32(squares_i32x16, squares_of(_mm512_castsi512_si256(codes_u8x64)));
      squares_i32x16 = _mm512_add_epi32(squares_i32x16, squares_of(_mm512_extracti64x4_epi64(codes_u8x64, 1)));
    }
    squares_u64x8 = _mm512_add_epi64(squares_u64x8, widened_sum(squares_i32x16));
  }
  return {static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sums_u64x8)),
          static_cast<std::uint64_t>(_mm512_reduce_add_epi64(squares_u64x8))};
}

void normalize_codes(const CodeNormalization& row) noexcept {
  const Floats factor = spread(row.factor), offset = spread(row.offset);
  const __m128i input_flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(row.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(row.output_flip));
  for (std::size_t i = 0; i < row.count; i += 16) {
    const __mmask16 mask = lane_mask(row.count - i);
    const __m128i codes_u8x16 = _mm_xor_si128(_mm_maskz_loadu_epi8(mask, row.input + i), input_flip_u8x16);
    const Floats normalized = fused(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes_u8x16)), factor, offset);
    const Floats scaled =
        fused(normalized, _mm512_maskz_loadu_ps(mask, row.weight + i), _mm512_maskz_loadu_ps(mask, row.bias + i));
    store_tail(row.output + i, mask, to_unsaturated(bounded(scaled), zero_point_i32x16), flip_u8x64);
  }
}

}  // namespace

constinit const LayerNormalizationKernels avx512_vnni::layer_normalization = {
    .floats = normalize_floats, .mean = row_mean, .moments = code_moments, .codes = normalize_codes};

}  // namespace dmlcpu
