// nibbles.h for AVX-512: 64 elements a step. Bound by memory.
//
// unpack: with a byte b = h * 16 + l widened to 16 bits, b | b << 4 holds l in bits 0..3 and h in bits 8..11.
// dequantize: the sixteen results that a row can have are a table, which a permutation looks up: it takes the low bits
// of each lane as the index, so that nothing is masked. Elements come into lanes by copies of their bytes, shifted
// right by 4 bits more in each lane. pack: vpmaddubsw makes low + 16 * high, at most 15 + 240, of each pair: nothing
// saturates.
#include <immintrin.h>

#include <cstring>

#include "kernels/nibbles/nibbles.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/nibbles/pairs.inl.h"

void unpack(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m512i low_halves_u8x64 = _mm512_set1_epi8(15), flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i bytes_u16x32 =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(input + i / 2)));
    const __m512i pairs_u8x64 =
        _mm512_and_si512(_mm512_or_si512(bytes_u16x32, _mm512_slli_epi16(bytes_u16x32, 4)), low_halves_u8x64);
    _mm512_storeu_si512(output + i, _mm512_xor_si512(pairs_u8x64, flip_u8x64));
  }
  unpack_pairs(input + i / 2, count - i, flip, output + i);
}

void pack(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m512i highest_u8x64 = _mm512_set1_epi8(15), flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  const __m512i weights_i8x64 = _mm512_set1_epi16(0x1001);  // 1 for the low byte of each pair, 16 for the high one
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i codes_u8x64 = _mm512_min_epu8(_mm512_loadu_si512(input + i), highest_u8x64);
    const __m512i pairs_u16x32 = _mm512_maddubs_epi16(_mm512_xor_si512(codes_u8x64, flip_u8x64), weights_i8x64);
    const __m256i packed_u8x32 = _mm512_cvtepi16_epi8(pairs_u16x32);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i / 2), packed_u8x32);
  }
  pack_pairs(input + i, count - i, flip, output + i / 2);
}

// The result of each code of a row, by the code as it is stored.
inline __m512 table_of(const NibbleRows& rows, std::size_t row, __m512 codes_f32x16) noexcept {
  const __m512 difference_f32x16 = _mm512_sub_ps(codes_f32x16, _mm512_set1_ps(rows.zero_point[row]));
  return _mm512_mul_ps(difference_f32x16, _mm512_set1_ps(rows.scale[row]));
}

inline __m512 codes_by_nibble(std::uint8_t flip) noexcept {
  const __m512i nibbles_i32x16 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_cvtepi32_ps(_mm512_xor_si512(nibbles_i32x16, _mm512_set1_epi32(flip)));
}

void dequantize_float32(const NibbleRows& rows) noexcept {
  const __m512 codes_f32x16 = codes_by_nibble(rows.flip);
  const __m512i shifts_i32x16 = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
  const std::uint8_t* input = rows.input;
  float* output = static_cast<float*>(rows.output);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const __m512 table_f32x16 = table_of(rows, row, codes_f32x16);
    for (std::size_t column = 0; column < rows.columns; column += 16, input += 8, output += 16) {
      std::int32_t first, second;
      std::memcpy(&first, input, sizeof(first));
      std::memcpy(&second, input + 4, sizeof(second));
      const __m512i bytes_i32x16 = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second);
      const __m512i index_i32x16 = _mm512_srlv_epi32(bytes_i32x16, shifts_i32x16);
      _mm512_storeu_ps(output, _mm512_permutexvar_ps(index_i32x16, table_f32x16));
    }
  }
}

// Sixteen bytes are 32 elements: quarter q of the vector takes bytes 4q..4q+3, each pair of them four times. The table
// stands in both halves, so that bit 4 of an index makes no difference.
void dequantize_float16(const NibbleRows& rows) noexcept {
  const __m512 codes_f32x16 = codes_by_nibble(rows.flip);
  const __m512i shifts_u16x32 = _mm512_set1_epi64(0x000c000800040000);
  const __m512i copies_u8x64 = _mm512_add_epi8(
      _mm512_set4_epi32(0x03020302, 0x03020302, 0x01000100, 0x01000100),
      _mm512_setr_epi32(0, 0, 0, 0, 0x04040404, 0x04040404, 0x04040404, 0x04040404, 0x08080808, 0x08080808, 0x08080808,
                        0x08080808, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c));
  const std::uint8_t* input = rows.input;
  auto* output = static_cast<std::uint8_t*>(rows.output);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const __m256i half_f16x16 =
        _mm512_cvtps_ph(table_of(rows, row, codes_f32x16), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512i table_f16x32 = _mm512_broadcast_i64x4(half_f16x16);
    for (std::size_t column = 0; column < rows.columns; column += 32, input += 16, output += 64) {
      const __m512i bytes_u8x64 = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input)));
      const __m512i index_u16x32 = _mm512_srlv_epi16(_mm512_shuffle_epi8(bytes_u8x64, copies_u8x64), shifts_u16x32);
      _mm512_storeu_si512(output, _mm512_permutexvar_epi16(index_u16x32, table_f16x32));
    }
  }
}

}  // namespace

constinit const NibblesKernels avx512_vnni::nibbles = {
    .unpack = unpack, .pack = pack, .dequantize_float32 = dequantize_float32, .dequantize_float16 = dequantize_float16};

}  // namespace dmlcpu
