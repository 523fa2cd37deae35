// table.h for AVX-512 without permutations of bytes: 64 codes a step, the rest by one mask.
//
// vpermt2w looks up six bits of an index among 64 words: two of them, and bit 7 of the code to choose, find the pair of
// values that bits 7..1 name; bit 0 says which of the pair. The codes at even and at odd places are looked up apart,
// each in words, and leave their values in the byte of their place.
//
// Bound by the shuffle port (two of the three instructions inside each of four permutations); the vpshufb of avx2.cpp,
// 64 bytes wide, needs twice its cycles.
//
// Of floats 16 codes a step: vpermt2ps looks up five bits of a code among 32 values, and the three bits above choose
// one of eight results. All of the table stays in 16 registers.
#include <immintrin.h>

#include "kernels/table/table.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

void look_up(const TableRun& run) noexcept {
  const std::uint8_t* input = run.input;
  std::uint8_t* output = run.output;
  const __m512i values_0_u8x64 = _mm512_loadu_si512(run.table), values_64_u8x64 = _mm512_loadu_si512(run.table + 64);
  const __m512i values_128_u8x64 = _mm512_loadu_si512(run.table + 128),
                values_192_u8x64 = _mm512_loadu_si512(run.table + 192);
  const __m512i bit_0_u16x32 = _mm512_set1_epi16(0x0001), bit_7_u16x32 = _mm512_set1_epi16(0x0080),
                bit_8_u16x32 = _mm512_set1_epi16(0x0100);

  // The words of the table by bits 6..1 of the code, which are the low six of pair_u16x32, and by its bit 7.
  const auto pairs = [&](__m512i pair_u16x32, __mmask32 from_128) {
    const __m512i below_128_u16x32 = _mm512_permutex2var_epi16(values_0_u8x64, pair_u16x32, values_64_u8x64);
    const __m512i others_u16x32 = _mm512_permutex2var_epi16(values_128_u8x64, pair_u16x32, values_192_u8x64);
    return _mm512_mask_mov_epi16(below_128_u16x32, from_128, others_u16x32);
  };
  const auto look_up_64 = [&](__m512i codes_u8x64) {
    const __m512i even_pairs_u16x32 =
        pairs(_mm512_srli_epi16(codes_u8x64, 1), _mm512_test_epi16_mask(codes_u8x64, bit_7_u16x32));
    const __m512i odd_pairs_u16x32 = pairs(_mm512_srli_epi16(codes_u8x64, 9), _mm512_movepi16_mask(codes_u8x64));
    // An even place takes the high byte of its pair if bit 0 is set, an odd place the low byte if bit 8 is not.
    const __m512i even_shift_u16x32 = _mm512_slli_epi16(_mm512_and_si512(codes_u8x64, bit_0_u16x32), 3);
    const __m512i odd_shift_u16x32 = _mm512_srli_epi16(_mm512_andnot_si512(codes_u8x64, bit_8_u16x32), 5);
    constexpr __mmask64 kOddPlaces = 0xaaaaaaaaaaaaaaaa;
    return _mm512_mask_blend_epi8(kOddPlaces, _mm512_srlv_epi16(even_pairs_u16x32, even_shift_u16x32),
                                  _mm512_sllv_epi16(odd_pairs_u16x32, odd_shift_u16x32));
  };

  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    _mm512_storeu_si512(output + i, look_up_64(_mm512_loadu_si512(input + i)));
  }
  if (i < run.count) {
    const __mmask64 mask = (__mmask64{1} << (run.count - i)) - 1;
    _mm512_mask_storeu_epi8(output + i, mask, look_up_64(_mm512_maskz_loadu_epi8(mask, input + i)));
  }
}

void look_up_floats(const FloatTableRun& run) noexcept {
  constexpr int kVectors = 16;
  const std::uint8_t* input = run.input;
  float* output = run.output;
  const std::size_t count = run.count;
  __m512 values_f32x16[kVectors];
  for (int k = 0; k < kVectors; ++k) values_f32x16[k] = _mm512_loadu_ps(run.table + 16 * k);

  const auto look_up_16 = [&](__m128i codes_u8x16) {
    const __m512i code_i32x16 = _mm512_cvtepu8_epi32(codes_u8x16);
    const __mmask16 bit_5 = _mm512_test_epi32_mask(code_i32x16, _mm512_set1_epi32(0x20)),
                    bit_6 = _mm512_test_epi32_mask(code_i32x16, _mm512_set1_epi32(0x40)),
                    bit_7 = _mm512_test_epi32_mask(code_i32x16, _mm512_set1_epi32(0x80));
    const auto of_32 = [&](int k) {
      return _mm512_permutex2var_ps(values_f32x16[k], code_i32x16, values_f32x16[k + 1]);
    };
    const auto of_64 = [&](int k) { return _mm512_mask_mov_ps(of_32(k), bit_5, of_32(k + 2)); };
    const auto of_128 = [&](int k) { return _mm512_mask_mov_ps(of_64(k), bit_6, of_64(k + 4)); };
    return _mm512_mask_mov_ps(of_128(0), bit_7, of_128(8));
  };

  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    _mm512_storeu_ps(output + i, look_up_16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input + i))));
  }
  if (i < count) {
    const auto mask = static_cast<__mmask16>((1U << (count - i)) - 1);
    _mm512_mask_storeu_ps(output + i, mask, look_up_16(_mm_maskz_loadu_epi8(mask, input + i)));
  }
}

}  // namespace

constinit const TableKernels avx512_vnni::table = {.look_up = look_up, .look_up_floats = look_up_floats};

}  // namespace dmlcpu
