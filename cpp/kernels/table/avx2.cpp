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
#include <immintrin.h>

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

}  // namespace

constinit const TableKernels avx2::table = {.look_up = look_up};

}  // namespace dmlcpu
