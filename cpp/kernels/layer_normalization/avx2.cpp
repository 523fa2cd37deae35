// layer_normalization.h for AVX2: 8 lanes.
#include <immintrin.h>

#include <cstring>

#include "kernels/layer_normalization/layer_normalization.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/lanes/avx2.inl.h"
// after the lanes
#include "kernels/lanes/steps.inl.h"
// after the steps
#include "kernels/layer_normalization/float_row.inl.h"

inline std::uint64_t folded_u64(__m256i x_u64x4) noexcept {
  const __m128i half_u64x2 = _mm_add_epi64(_mm256_castsi256_si128(x_u64x4), _mm256_extracti128_si256(x_u64x4, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(half_u64x2)) +
         static_cast<std::uint64_t>(_mm_extract_epi64(half_u64x2, 1));
}

// The squares of 16 codes, as sums of two: at most 2 * 255^2 each.
inline __m256i squares_of(__m128i codes_u8x16) noexcept {
  const __m256i codes_i16x16 = _mm256_cvtepu8_epi16(codes_u8x16);
  return _mm256_madd_epi16(codes_i16x16, codes_i16x16);
}

CodeMoments code_moments(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  // A lane of 32 bits takes 2 * 2 * 255^2 a step: 2^13 steps stay below 2^31.
  constexpr std::size_t kStepCodes = 32, kBlockCodes = kStepCodes << 13;
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip)), zero_u8x32 = _mm256_setzero_si256();
  __m256i sums_u64x4 = zero_u8x32, squares_u64x4 = zero_u8x32;
  std::size_t i = 0;
  while (i + kStepCodes <= count) {
    const std::size_t end = count - i < kBlockCodes ? count : i + kBlockCodes;
    __m256i squares_i32x8 = zero_u8x32;
    for (; i + kStepCodes <= end; i += kStepCodes) {
      const __m256i loaded_u8x32 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
      const __m256i codes_u8x32 = _mm256_xor_si256(loaded_u8x32, flip_u8x32);
      sums_u64x4 = _mm256_add_epi64(sums_u64x4, _mm256_sad_epu8(codes_u8x32, zero_u8x32));
      squares_i32x8 = _mm256_add_epi32(squares_i32x8, squares_of(_mm256_castsi256_si128(codes_u8x32)));
      squares_i32x8 = _mm256_add_epi32(squares_i32x8, squares_of(_mm256_extracti128_si256(codes_u8x32, 1)));
    }
    squares_u64x4 = _mm256_add_epi64(squares_u64x4, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(squares_i32x8)));
    squares_u64x4 = _mm256_add_epi64(squares_u64x4, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(squares_i32x8, 1)));
  }
  CodeMoments moments = {folded_u64(sums_u64x4), folded_u64(squares_u64x4)};
  for (; i < count; ++i) {
    const auto code = static_cast<std::uint32_t>(codes[i] ^ flip);
    moments.sum += code;
    moments.sum_of_squares += code * code;
  }
  return moments;
}

// The first count of 8 codes as floats, 1 <= count <= 8; 0 in the other lanes.
inline Floats codes_as_floats(const std::uint8_t* codes, std::size_t count, __m128i flip_u8x16) noexcept {
  std::uint64_t loaded = 0;
  if (count == 8) {
    std::memcpy(&loaded, codes, 8);
  } else {
    std::memcpy(&loaded, codes, count);
  }
  const __m128i codes_u8x16 = _mm_xor_si128(_mm_cvtsi64_si128(static_cast<long long>(loaded)), flip_u8x16);
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes_u8x16));
}

void normalize_codes(const CodeNormalization& row) noexcept {
  const Floats factor = spread(row.factor), offset = spread(row.offset);
  const __m128i input_flip_u8x16 = _mm_set1_epi8(static_cast<char>(row.input_flip));
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(row.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(row.output_flip));
  for_each_vector(row.count, [&](std::size_t i, std::size_t, std::size_t lanes) {
    const bool whole = lanes == kLanes;
    const Floats weight = whole ? load(row.weight + i) : load_first(row.weight + i, lanes, 0.0f);
    const Floats bias = whole ? load(row.bias + i) : load_first(row.bias + i, lanes, 0.0f);
    const Floats normalized = fused(codes_as_floats(row.input + i, lanes, input_flip_u8x16), factor, offset);
    const __m256i codes_i32x8 = to_unsaturated(bounded(fused(normalized, weight, bias)), zero_point_i32x8);
    store_tail(row.output + i, lanes, codes_i32x8, flip_u8x32);
  });
}

}  // namespace

constinit const LayerNormalizationKernels avx2::layer_normalization = {
    .floats = normalize_floats, .mean = row_mean, .moments = code_moments, .codes = normalize_codes};

}  // namespace dmlcpu
