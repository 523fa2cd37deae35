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
#include "kernels/lanes/steps_of_sixteen.inl.h"
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
  const auto unsaturated = [&](std::size_t at, std::size_t lanes, Floats weight, Floats bias) {
    const Floats normalized = fused(codes_as_floats(row.input + at, lanes, input_flip_u8x16), factor, offset);
    return to_unsaturated(bounded(fused(normalized, weight, bias)), zero_point_i32x8);
  };
  std::size_t i = 0;
  for (; i + 32 <= row.count; i += 32) {
    const auto vector = [&](std::size_t v) {
      const std::size_t at = i + v * kLanes;
      return unsaturated(at, kLanes, load(row.weight + at), load(row.bias + at));
    };
    const __m256i codes_u8x32 = saturate_in_order(vector(0), vector(1), vector(2), vector(3));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row.output + i), _mm256_xor_si256(codes_u8x32, flip_u8x32));
  }
  for_each_vector(row.count - i, [&](std::size_t behind, std::size_t, std::size_t lanes) {
    const std::size_t at = i + behind;
    const bool whole = lanes == kLanes;
    const Floats weight = whole ? load(row.weight + at) : load_first(row.weight + at, lanes, 0.0f);
    const Floats bias = whole ? load(row.bias + at) : load_first(row.bias + at, lanes, 0.0f);
    store_tail(row.output + at, lanes, unsaturated(at, lanes, weight, bias), flip_u8x32);
  });
}

// The first count of 32 codes in the order of their values, 0 behind them.
inline __m256i load_codes(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  if (count == 32) return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), flip_u8x32);
  alignas(32) std::uint8_t padded[32];
  std::memset(padded, flip, sizeof padded);
  std::memcpy(padded, codes, count);
  return _mm256_xor_si256(_mm256_load_si256(reinterpret_cast<const __m256i*>(padded)), flip_u8x32);
}

// Each lane of 32 bits gets the codes of a channel of two pixels, widened.
void channel_moments(const ChannelCodes& run, std::uint32_t* sums, std::uint32_t* sums_of_squares) noexcept {
  const __m256i zero_u8x32 = _mm256_setzero_si256(), ones_i16x16 = _mm256_set1_epi16(1);
  for (std::size_t first = 0; first < run.channels; first += 32) {
    const std::size_t channels = run.channels - first < 32 ? run.channels - first : 32;
    __m256i sums_i32x8[4] = {zero_u8x32, zero_u8x32, zero_u8x32, zero_u8x32};
    __m256i squares_i32x8[4] = {zero_u8x32, zero_u8x32, zero_u8x32, zero_u8x32};
    for (std::size_t pixel = 0; pixel < run.pixels; pixel += 2) {
      const std::uint8_t* codes = run.codes + pixel * run.pixel_step + first;
      const __m256i a_u8x32 = load_codes(codes, channels, run.flip);
      const __m256i b_u8x32 =
          pixel + 1 < run.pixels ? load_codes(codes + run.pixel_step, channels, run.flip) : zero_u8x32;
      const __m256i low_u8x32 = _mm256_unpacklo_epi8(a_u8x32, b_u8x32);
      const __m256i high_u8x32 = _mm256_unpackhi_epi8(a_u8x32, b_u8x32);
      const __m256i pairs_u16x16[4] = {
          _mm256_unpacklo_epi8(low_u8x32, zero_u8x32), _mm256_unpackhi_epi8(low_u8x32, zero_u8x32),
          _mm256_unpacklo_epi8(high_u8x32, zero_u8x32), _mm256_unpackhi_epi8(high_u8x32, zero_u8x32)};
      for (std::size_t q = 0; q < 4; ++q) {
        sums_i32x8[q] = _mm256_add_epi32(sums_i32x8[q], _mm256_madd_epi16(pairs_u16x16[q], ones_i16x16));
        squares_i32x8[q] = _mm256_add_epi32(squares_i32x8[q], _mm256_madd_epi16(pairs_u16x16[q], pairs_u16x16[q]));
      }
    }
    // Lane 4 * l + j of vector q is channel 16 * l + 4 * q + j.
    alignas(32) std::uint32_t lanes[2][4][8];
    for (std::size_t q = 0; q < 4; ++q) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes[0][q]), sums_i32x8[q]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes[1][q]), squares_i32x8[q]);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t q = c / 4 % 4, lane = c / 16 * 4 + c % 4;
      sums[first + c] += lanes[0][q][lane];
      sums_of_squares[first + c] += lanes[1][q][lane];
    }
  }
}

void normalize_channels(const ChannelNormalization& run) noexcept {
  const __m128i input_flip_u8x16 = _mm_set1_epi8(static_cast<char>(run.input.flip));
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m256i output_flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.output_flip));
  const std::size_t channels = run.input.channels;
  const auto unsaturated = [&](const std::uint8_t* codes, std::size_t count, Floats factor, Floats offset) {
    return to_unsaturated(bounded(fused(codes_as_floats(codes, count, input_flip_u8x16), factor, offset)),
                          zero_point_i32x8);
  };
  std::size_t first = 0;
  for (; first + 32 <= channels; first += 32) {
    Floats factors[4], offsets[4];
    for (std::size_t q = 0; q < 4; ++q) {
      factors[q] = load(run.factor + first + 8 * q);
      offsets[q] = load(run.offset + first + 8 * q);
    }
    for (std::size_t pixel = 0; pixel < run.input.pixels; ++pixel) {
      const std::uint8_t* codes = run.input.codes + pixel * run.input.pixel_step + first;
      const __m256i results_u8x32 = saturate_in_order(
          unsaturated(codes, 8, factors[0], offsets[0]), unsaturated(codes + 8, 8, factors[1], offsets[1]),
          unsaturated(codes + 16, 8, factors[2], offsets[2]), unsaturated(codes + 24, 8, factors[3], offsets[3]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.output + pixel * run.output_pixel_step + first),
                          _mm256_xor_si256(results_u8x32, output_flip_u8x32));
    }
  }
  for (; first < channels; first += 8) {
    const std::size_t count = channels - first < 8 ? channels - first : 8;
    const Floats factor = load_first(run.factor + first, count, 0.0f);
    const Floats offset = load_first(run.offset + first, count, 0.0f);
    for (std::size_t pixel = 0; pixel < run.input.pixels; ++pixel) {
      const std::uint8_t* codes = run.input.codes + pixel * run.input.pixel_step + first;
      store_tail(run.output + pixel * run.output_pixel_step + first, count, unsaturated(codes, count, factor, offset),
                 output_flip_u8x32);
    }
  }
}

}  // namespace

constinit const LayerNormalizationKernels avx2::layer_normalization = {.floats = normalize_floats,
                                                                       .float_group = normalize_group,
                                                                       .sum = row_sum,
                                                                       .column_quotients = column_quotients,
                                                                       .moments = code_moments,
                                                                       .codes = normalize_codes,
                                                                       .channel_moments = channel_moments,
                                                                       .channels = normalize_channels};

}  // namespace dmlcpu
