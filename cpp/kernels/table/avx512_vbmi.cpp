// table.h with AVX512_VBMI: 64 codes a step, the rest by one mask. vpermt2b looks up seven bits of a code among 128
// values; the top bit chooses between two of them. Bound by memory from the level-2 cache on.
//
// Of floats each of their four bytes is looked up so, in a table of its own, and put together by interleaving: 17
// permutations for 64 codes, where looking up floats by five bits takes 32.
#include <immintrin.h>

#include "kernels/table/table.h"

#ifndef __AVX512VBMI__
#error "compile with AVX512_VBMI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/byte_table_avx512_vbmi.inl.h"

void look_up(const TableRun& run) noexcept {
  const std::uint8_t* input = run.input;
  std::uint8_t* output = run.output;
  const ByteTable<4> table(run.table);

  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    _mm512_storeu_si512(output + i, table.of(_mm512_loadu_si512(input + i)));
  }
  if (i < run.count) {
    const __mmask64 mask = (__mmask64{1} << (run.count - i)) - 1;
    _mm512_mask_storeu_epi8(output + i, mask, table.of(_mm512_maskz_loadu_epi8(mask, input + i)));
  }
}

// One byte of each of 256 floats.
ByteTable<4> byte_of_floats(const float* table, unsigned byte) noexcept {
  std::uint8_t values[256];
  for (int i = 0; i < 256; i += 16) {
    const __m512i shifted_u32x16 = _mm512_srli_epi32(_mm512_loadu_si512(table + i), 8 * byte);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values + i), _mm512_cvtepi32_epi8(shifted_u32x16));
  }
  return ByteTable<4>(values);
}

// Interleaving works within quarters of registers: quarter q of the codes has those of places 4q to 4q + 3 of each 16.
inline __m512i by_quarters(__m512i codes_u8x64) noexcept {
  const __m512i place_u8x64 =
      _mm512_set_epi32(0x3f3e3d3c, 0x2f2e2d2c, 0x1f1e1d1c, 0x0f0e0d0c, 0x3b3a3938, 0x2b2a2928, 0x1b1a1918, 0x0b0a0908,
                       0x37363534, 0x27262524, 0x17161514, 0x07060504, 0x33323130, 0x23222120, 0x13121110, 0x03020100);
  return _mm512_permutexvar_epi8(place_u8x64, codes_u8x64);
}

void look_up_floats(const FloatTableRun& run) noexcept {
  // Taking the table apart takes as long as so many codes one by one.
  constexpr std::size_t kFew = 128;
  const std::uint8_t* input = run.input;
  const std::size_t count = run.count;
  std::size_t i = 0;
  if (count < kFew) {
    for (; i < count; ++i) run.output[i] = run.table[input[i]];
    return;
  }
  const ByteTable<4> byte_0 = byte_of_floats(run.table, 0), byte_1 = byte_of_floats(run.table, 1),
                     byte_2 = byte_of_floats(run.table, 2), byte_3 = byte_of_floats(run.table, 3);
  const auto look_up_64 = [&](__m512i codes_u8x64, const auto& write) {
    const __m512i ordered_u8x64 = by_quarters(codes_u8x64);
    const __m512i bytes_0_u8x64 = byte_0.of(ordered_u8x64), bytes_1_u8x64 = byte_1.of(ordered_u8x64),
                  bytes_2_u8x64 = byte_2.of(ordered_u8x64), bytes_3_u8x64 = byte_3.of(ordered_u8x64);
    const __m512i low_01_u16x32 = _mm512_unpacklo_epi8(bytes_0_u8x64, bytes_1_u8x64),
                  high_01_u16x32 = _mm512_unpackhi_epi8(bytes_0_u8x64, bytes_1_u8x64),
                  low_23_u16x32 = _mm512_unpacklo_epi8(bytes_2_u8x64, bytes_3_u8x64),
                  high_23_u16x32 = _mm512_unpackhi_epi8(bytes_2_u8x64, bytes_3_u8x64);
    write(0, _mm512_unpacklo_epi16(low_01_u16x32, low_23_u16x32));
    write(16, _mm512_unpackhi_epi16(low_01_u16x32, low_23_u16x32));
    write(32, _mm512_unpacklo_epi16(high_01_u16x32, high_23_u16x32));
    write(48, _mm512_unpackhi_epi16(high_01_u16x32, high_23_u16x32));
  };
  for (; i + 64 <= count; i += 64) {
    float* output = run.output + i;
    look_up_64(_mm512_loadu_si512(input + i),
               [&](int place, __m512i floats_u32x16) { _mm512_storeu_si512(output + place, floats_u32x16); });
  }
  if (i < count) {
    const __mmask64 mask = (__mmask64{1} << (count - i)) - 1;
    float* output = run.output + i;
    look_up_64(_mm512_maskz_loadu_epi8(mask, input + i), [&](int place, __m512i floats_u32x16) {
      _mm512_mask_storeu_epi32(output + place, static_cast<__mmask16>(mask >> place), floats_u32x16);
    });
  }
}

}  // namespace

constinit const TableKernels avx512_vbmi::table = {.look_up = look_up, .look_up_floats = look_up_floats};

}  // namespace dmlcpu
