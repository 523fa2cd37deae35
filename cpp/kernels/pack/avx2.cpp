// pack.h for AVX2. Bound by memory, interleave by the shuffle port (12 shuffles for 128 bytes).
//
// interleave: byte and word unpacks of four rows make groups, but within 128-bit halves: output j would hold the groups
// 4j..4j+3 of half 0, then of half 1. So each row is permuted first, dword j of half h taking dword 2j + h: then output
// j holds groups 8j..8j+7 in order.
//
// The sums of four bytes are exact: vpmaddubsw with ones makes pairs of at most 510, vpmaddwd with ones adds pairs into
// 32 bits. vpsadbw sums into 64-bit lanes, of which the low half is the sum modulo 2^32.
#include <immintrin.h>

#include "kernels/pack/pack.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

inline __m256i load(const std::uint8_t* input) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input));
}

inline void store(std::uint8_t* output, __m256i value_u8x32) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), value_u8x32);
}

// All ones in the first count of eight lanes.
inline __m256i lane_mask(std::size_t count) noexcept {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline __m256i load_groups(const std::uint8_t* input, __m256i mask_i32x8) noexcept {
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(input), mask_i32x8);
}

void copy(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) store(output + i, _mm256_xor_si256(load(input + i), flip_u8x32));
  for (; i < count; ++i) output[i] = static_cast<std::uint8_t>(input[i] ^ flip);
}

// Where the next groups go: on through a run of columns, then to the next run.
struct Cursor {
  std::uint8_t* output;
  std::size_t left, run, gap;

  explicit Cursor(const InterleaveRun& r) noexcept
      : output(r.output), left(r.run), run(r.run), gap(r.run_bytes - r.run * 4) {}
  void advance(std::size_t groups) noexcept {
    output += 4 * groups;
    left -= groups;
    if (left == 0) {
      output += gap;
      left = run;
    }
  }
};

void interleave(const InterleaveRun& run) noexcept {
  const std::uint8_t* const row[4] = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]};
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.flip));
  const __m256i order_i32x8 = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  Cursor cursor(run);
  std::size_t i = 0;
  for (; i + 32 <= run.count; i += 32) {
    __m256i row_u8x32[4];
    for (int r = 0; r < 4; ++r) {
      row_u8x32[r] = _mm256_permutevar8x32_epi32(_mm256_xor_si256(load(row[r] + i), flip_u8x32), order_i32x8);
    }
    const __m256i low_01 = _mm256_unpacklo_epi8(row_u8x32[0], row_u8x32[1]);
    const __m256i low_23 = _mm256_unpacklo_epi8(row_u8x32[2], row_u8x32[3]);
    const __m256i high_01 = _mm256_unpackhi_epi8(row_u8x32[0], row_u8x32[1]);
    const __m256i high_23 = _mm256_unpackhi_epi8(row_u8x32[2], row_u8x32[3]);
    store(cursor.output, _mm256_unpacklo_epi16(low_01, low_23));
    store(cursor.output + 32, _mm256_unpackhi_epi16(low_01, low_23));
    cursor.advance(16);
    store(cursor.output, _mm256_unpacklo_epi16(high_01, high_23));
    store(cursor.output + 32, _mm256_unpackhi_epi16(high_01, high_23));
    cursor.advance(16);
  }
  for (; i < run.count; ++i, cursor.advance(1)) {
    for (std::size_t r = 0; r < 4; ++r) cursor.output[r] = static_cast<std::uint8_t>(row[r][i] ^ run.flip);
  }
}

void sum_rows(const std::uint8_t* a, std::size_t a_row_stride, std::size_t m, std::size_t k,
              std::int32_t* sums) noexcept {
  const __m256i zero_u8x32 = _mm256_setzero_si256();
  for (std::size_t row = 0; row < m; ++row, a += a_row_stride) {
    __m256i sum_u64x4 = zero_u8x32;
    std::size_t i = 0;
    for (; i + 32 <= k; i += 32) {
      sum_u64x4 = _mm256_add_epi64(sum_u64x4, _mm256_sad_epu8(load(a + i), zero_u8x32));
    }
    std::int32_t last = 0;
    for (; i < k; ++i) last += a[i];
    const __m128i sum_u64x2 = _mm_add_epi64(_mm256_castsi256_si128(sum_u64x4), _mm256_extracti128_si256(sum_u64x4, 1));
    const __m128i sum_u64x1 = _mm_add_epi64(sum_u64x2, _mm_unpackhi_epi64(sum_u64x2, sum_u64x2));
    sums[row] = _mm_cvtsi128_si32(_mm_add_epi32(sum_u64x1, _mm_cvtsi32_si128(last)));
  }
}

void sum_columns(const std::uint8_t* panel, std::size_t nr, std::size_t k, std::int32_t* sums) noexcept {
  const __m256i ones_i8x32 = _mm256_set1_epi8(1), ones_i16x16 = _mm256_set1_epi16(1);
  for (std::size_t column = 0; column < nr; column += 8) {
    const __m256i mask_i32x8 = lane_mask(nr - column < 8 ? nr - column : 8);
    __m256i sum_i32x8 = _mm256_setzero_si256();
    for (std::size_t i = 0; i < k; i += 4) {
      const __m256i group_u8x32 = load_groups(panel + i * nr + 4 * column, mask_i32x8);
      const __m256i pairs_i16x16 = _mm256_maddubs_epi16(group_u8x32, ones_i8x32);
      sum_i32x8 = _mm256_add_epi32(sum_i32x8, _mm256_madd_epi16(pairs_i16x16, ones_i16x16));
    }
    _mm256_maskstore_epi32(sums + column, mask_i32x8, sum_i32x8);
  }
}

}  // namespace

constinit const PackKernels avx2::pack = {
    .copy = copy, .interleave = interleave, .sum_rows = sum_rows, .sum_columns = sum_columns};

}  // namespace dmlcpu
