// layer_normalization.h for AVX-512: 16 lanes, the rest by one mask.
#include <immintrin.h>

#include "kernels/layer_normalization/layer_normalization.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/lanes/steps_of_sixteen.inl.h"
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

// The codes of up to four pixels in the order of their values, 64 channels each; 0 for pixels that are not there.
struct FourPixels {
  __m512i codes_u8x64[4];
};

inline FourPixels load_pixels(const std::uint8_t* codes, std::size_t pixels, std::size_t step, __mmask64 mask,
                              __m512i flip_u8x64) noexcept {
  FourPixels four;
  for (std::size_t p = 0; p < 4; ++p) {
    four.codes_u8x64[p] =
        p < pixels
            ? _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, codes + p * step), flip_u8x64))
            : _mm512_setzero_si512();
  }
  return four;
}

// Each lane of 32 bits gets the four codes of a channel. The products are of codes with codes less 128, as one side of
// them is signed: within -2^12..2^15 - 383 each, so that those of 2^16 pixels stay below 2^31.
void channel_moments(const ChannelCodes& run, std::uint32_t* sums, std::uint32_t* sums_of_squares) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.flip)), ones_i8x64 = _mm512_set1_epi8(1);
  const __m512i sign_u8x64 = _mm512_set1_epi8(static_cast<char>(0x80));
  for (std::size_t first = 0; first < run.channels; first += 64) {
    const std::size_t channels = run.channels - first < 64 ? run.channels - first : 64;
    const __mmask64 mask = channels == 64 ? ~__mmask64{0} : (__mmask64{1} << channels) - 1;
    __m512i sums_i32x16[4], products_i32x16[4];
    for (std::size_t q = 0; q < 4; ++q) sums_i32x16[q] = products_i32x16[q] = _mm512_setzero_si512();
    for (std::size_t pixel = 0; pixel < run.pixels; pixel += 4) {
      const std::size_t pixels = run.pixels - pixel < 4 ? run.pixels - pixel : 4;
      const auto [a_u8x64, b_u8x64, c_u8x64, d_u8x64] =
          load_pixels(run.codes + pixel * run.pixel_step + first, pixels, run.pixel_step, mask, flip_u8x64).codes_u8x64;
      const __m512i low_ab = _mm512_unpacklo_epi8(a_u8x64, b_u8x64), low_cd = _mm512_unpacklo_epi8(c_u8x64, d_u8x64);
      const __m512i high_ab = _mm512_unpackhi_epi8(a_u8x64, b_u8x64), high_cd = _mm512_unpackhi_epi8(c_u8x64, d_u8x64);
      const __m512i quads_u8x64[4] = {_mm512_unpacklo_epi16(low_ab, low_cd), _mm512_unpackhi_epi16(low_ab, low_cd),
                                      _mm512_unpacklo_epi16(high_ab, high_cd), _mm512_unpackhi_epi16(high_ab, high_cd)};
      for (std::size_t q = 0; q < 4; ++q) {
        sums_i32x16[q] = _mm512_dpbusd_epi32(sums_i32x16[q], quads_u8x64[q], ones_i8x64);
        products_i32x16[q] =
            _mm512_dpbusd_epi32(products_i32x16[q], quads_u8x64[q], _mm512_xor_si512(quads_u8x64[q], sign_u8x64));
      }
    }
    // Lane 4 * l + j of vector q is channel 16 * l + 4 * q + j.
    alignas(64) std::uint32_t lanes[2][4][16];
    for (std::size_t q = 0; q < 4; ++q) {
      _mm512_store_si512(lanes[0][q], sums_i32x16[q]);
      _mm512_store_si512(lanes[1][q], _mm512_add_epi32(products_i32x16[q], _mm512_slli_epi32(sums_i32x16[q], 7)));
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t q = c / 4 % 4, lane = c / 16 * 4 + c % 4;
      sums[first + c] += lanes[0][q][lane];
      sums_of_squares[first + c] += lanes[1][q][lane];
    }
  }
}

void normalize_channels(const ChannelNormalization& run) noexcept {
  const __m512i input_flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.input.flip));
  const __m512i output_flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_flip));
  const __m512i zero_point_i16x32 = _mm512_set1_epi16(static_cast<short>(run.output_zero_point));
  for (std::size_t first = 0; first < run.input.channels; first += 64) {
    const std::size_t channels = run.input.channels - first < 64 ? run.input.channels - first : 64;
    const __mmask64 mask = channels == 64 ? ~__mmask64{0} : (__mmask64{1} << channels) - 1;
    Floats factors[4], offsets[4];
    for (std::size_t q = 0; q < 4; ++q) {
      const auto lanes = static_cast<__mmask16>(mask >> 16 * q);
      factors[q] = _mm512_maskz_loadu_ps(lanes, run.factor + first + 16 * q);
      offsets[q] = _mm512_maskz_loadu_ps(lanes, run.offset + first + 16 * q);
    }
    const auto rounded = [&](__m128i codes_u8x16, std::size_t q) {
      const Floats codes = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes_u8x16));
      return _mm512_cvtps_epi32(bounded(fused(codes, factors[q], offsets[q])));
    };
    for (std::size_t pixel = 0; pixel < run.input.pixels; ++pixel) {
      const std::uint8_t* input = run.input.codes + pixel * run.input.pixel_step + first;
      const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, input), input_flip_u8x64);
      const __m512i results_u8x64 = saturate_in_order(
          rounded(_mm512_castsi512_si128(codes_u8x64), 0), rounded(_mm512_extracti32x4_epi32(codes_u8x64, 1), 1),
          rounded(_mm512_extracti32x4_epi32(codes_u8x64, 2), 2), rounded(_mm512_extracti32x4_epi32(codes_u8x64, 3), 3),
          zero_point_i16x32);
      _mm512_mask_storeu_epi8(run.output + pixel * run.output_pixel_step + first, mask,
                              _mm512_xor_si512(results_u8x64, output_flip_u8x64));
    }
  }
}

}  // namespace

constinit const LayerNormalizationKernels avx512_vnni::layer_normalization = {.floats = normalize_floats,
                                                                              .float_group = normalize_group,
                                                                              .sum = row_sum,
                                                                              .column_quotients = column_quotients,
                                                                              .moments = code_moments,
                                                                              .codes = normalize_codes,
                                                                              .channel_moments = channel_moments,
                                                                              .channels = normalize_channels};

}  // namespace dmlcpu
