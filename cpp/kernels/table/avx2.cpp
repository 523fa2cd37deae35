// table.h for AVX2: 32 codes a step, the rest one by one.
//
// vpshufb looks up the low four bits of an index in one slice of 16 values, and gives 0 where the index has its top bit
// set. The 128 values below 0x80 are 8 slices: slice k holds table[16 k + j] xor table[16 (k - 1) + j], and its index
// is input - 16 k, saturated at -128. So for an input of slice h the slices 0..h contribute, which telescopes to the
// value of slice h, and the others give 0; an input from 0x80 on, a negative index throughout, gives 0 altogether. The
// other 128 values are 8 slices more, with the top bit of the input turned.
//
// Bound by 16 shuffles, 16 exclusive ors and 14 subtractions for 32 codes. Picking one of 16 shuffles by blends, bit by
// bit, is slower: a blend by a vector is two or three instructions inside.
//
// Floats are loaded one by one, for 8 codes in one register: a gather of 8 takes half as long again.
#include <immintrin.h>

#include <cstring>

#include "kernels/table/table.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

constexpr int kSlices = 8;

// 128 values as slices, each the difference to the one before.
inline void load_slices(const std::uint8_t* values, __m256i (&slice_u8x32)[kSlices]) noexcept {
  __m128i before_u8x16 = _mm_setzero_si128();
  for (int k = 0; k < kSlices; ++k) {
    const __m128i values_u8x16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + 16 * k));
    slice_u8x32[k] = _mm256_broadcastsi128_si256(_mm_xor_si128(values_u8x16, before_u8x16));
    before_u8x16 = values_u8x16;
  }
}

void look_up(const TableRun& run) noexcept {
  const std::uint8_t *table = run.table, *input = run.input;
  std::uint8_t* output = run.output;
  std::size_t i = 0;
  if (run.count >= 32) {
    __m256i low_u8x32[kSlices], high_u8x32[kSlices];
    load_slices(table, low_u8x32);
    load_slices(table + 128, high_u8x32);
    const __m256i sixteen_i8x32 = _mm256_set1_epi8(16), top_bit_u8x32 = _mm256_set1_epi8(static_cast<char>(0x80));
    for (; i + 32 <= run.count; i += 32) {
      __m256i low_index_i8x32 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input + i));
      __m256i high_index_i8x32 = _mm256_xor_si256(low_index_i8x32, top_bit_u8x32);
      __m256i low_value_u8x32 = _mm256_shuffle_epi8(low_u8x32[0], low_index_i8x32);
      __m256i high_value_u8x32 = _mm256_shuffle_epi8(high_u8x32[0], high_index_i8x32);
#pragma GCC unroll 8
      for (int k = 1; k < kSlices; ++k) {
        low_index_i8x32 = _mm256_subs_epi8(low_index_i8x32, sixteen_i8x32);
        high_index_i8x32 = _mm256_subs_epi8(high_index_i8x32, sixteen_i8x32);
        low_value_u8x32 = _mm256_xor_si256(low_value_u8x32, _mm256_shuffle_epi8(low_u8x32[k], low_index_i8x32));
        high_value_u8x32 = _mm256_xor_si256(high_value_u8x32, _mm256_shuffle_epi8(high_u8x32[k], high_index_i8x32));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i), _mm256_xor_si256(low_value_u8x32, high_value_u8x32));
    }
  }
  for (; i < run.count; ++i) output[i] = table[input[i]];
}

// The floats of four codes, from the byte of number first on.
inline __m128 four_floats(const float* table, std::uint64_t codes, int first) noexcept {
  const auto value = [&](int place) { return _mm_load_ss(table + (codes >> (8 * (first + place)) & 0xff)); };
  return _mm_movelh_ps(_mm_unpacklo_ps(value(0), value(1)), _mm_unpacklo_ps(value(2), value(3)));
}

void look_up_floats(const FloatTableRun& run) noexcept {
  // Copies: stores of vectors could change what the reference refers to.
  const float* table = run.table;
  const std::uint8_t* input = run.input;
  float* output = run.output;
  const std::size_t count = run.count;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t codes;
    std::memcpy(&codes, input + i, sizeof(codes));
    _mm_storeu_ps(output + i, four_floats(table, codes, 0));
    _mm_storeu_ps(output + i + 4, four_floats(table, codes, 4));
  }
  for (; i < count; ++i) output[i] = table[input[i]];
}

}  // namespace

constinit const TableKernels avx2::table = {.look_up = look_up, .look_up_floats = look_up_floats};

}  // namespace dmlcpu
