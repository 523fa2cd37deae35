// nibbles.h for AVX2: 32 elements a step. Bound by memory.
//
// unpack: with a byte b = h * 16 + l widened to 16 bits, b | b << 4 holds l in bits 0..3 and h in bits 8..11.
// dequantize: four bytes in every lane, shifted right by 4 bits more in each, are eight elements in order.
// pack: vpmaddubsw makes low + 16 * high, at most 15 + 240, of each pair: nothing saturates.
#include <immintrin.h>

#include <cstring>

#include "kernels/nibbles/nibbles.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/nibbles/pairs.inl.h"

void unpack(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m256i low_halves_u8x32 = _mm256_set1_epi8(15), flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i bytes_u16x16 = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input + i / 2)));
    const __m256i pairs_u8x32 =
        _mm256_and_si256(_mm256_or_si256(bytes_u16x16, _mm256_slli_epi16(bytes_u16x16, 4)), low_halves_u8x32);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i), _mm256_xor_si256(pairs_u8x32, flip_u8x32));
  }
  unpack_pairs(input + i / 2, count - i, flip, output + i);
}

void pack(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m256i highest_u8x32 = _mm256_set1_epi8(15), flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  const __m256i weights_i8x32 = _mm256_set1_epi16(0x1001);  // 1 for the low byte of each pair, 16 for the high one
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i codes_u8x32 =
        _mm256_min_epu8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(input + i)), highest_u8x32);
    const __m256i pairs_u16x16 = _mm256_maddubs_epi16(_mm256_xor_si256(codes_u8x32, flip_u8x32), weights_i8x32);
    const __m128i packed_u8x16 =
        _mm_packus_epi16(_mm256_castsi256_si128(pairs_u16x16), _mm256_extracti128_si256(pairs_u16x16, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + i / 2), packed_u8x16);
  }
  pack_pairs(input + i, count - i, flip, output + i / 2);
}

inline void store(__m256 values_f32x8, float* output) noexcept { _mm256_storeu_ps(output, values_f32x8); }
inline void store(__m256 values_f32x8, Half* output) noexcept {
  const __m128i halves_f16x8 = _mm256_cvtps_ph(values_f32x8, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(output), halves_f16x8);
}

template <class Output>
void dequantize(const NibbleRows& rows) noexcept {
  const __m256i shifts_i32x8 = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256i low_half_i32x8 = _mm256_set1_epi32(15), flip_i32x8 = _mm256_set1_epi32(rows.flip);
  const std::uint8_t* input = rows.input;
  Output* output = static_cast<Output*>(rows.output);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const __m256 scale_f32x8 = _mm256_set1_ps(rows.scale[row]), zero_f32x8 = _mm256_set1_ps(rows.zero_point[row]);
    for (std::size_t column = 0; column < rows.columns; column += 8, input += 4, output += 8) {
      std::int32_t eight;
      std::memcpy(&eight, input, sizeof(eight));
      const __m256i shifted_i32x8 = _mm256_srlv_epi32(_mm256_set1_epi32(eight), shifts_i32x8);
      const __m256i codes_i32x8 = _mm256_xor_si256(_mm256_and_si256(shifted_i32x8, low_half_i32x8), flip_i32x8);
      store(_mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(codes_i32x8), zero_f32x8), scale_f32x8), output);
    }
  }
}

}  // namespace

constinit const NibblesKernels avx2::nibbles = {
    .unpack = unpack, .pack = pack, .dequantize_float32 = dequantize<float>, .dequantize_float16 = dequantize<Half>};

}  // namespace dmlcpu
