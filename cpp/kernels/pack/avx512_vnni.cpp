// pack.h for AVX-512. Bound by memory, interleave by the shuffle port (12 shuffles for 256 bytes).
//
// interleave: byte and word unpacks of four rows make groups, but within 128-bit quarters: output j would hold the
// groups 4j..4j+3 of quarter 0, of quarter 1, ... So each row is permuted first, dword j of quarter q taking dword
// 4j + q: then output j holds groups 16j..16j+15 in order.
//
// The sums of four bytes fit their 32-bit lane (4 * 255), vpdpbusd with ones accumulates without saturation, and
// vpsadbw sums into 64-bit lanes, of which the low half is the sum modulo 2^32.
#include <immintrin.h>

#include "kernels/pack/pack.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr __mmask64 kAllBytes = ~__mmask64{0};

// The first count of sixteen lanes or of 64 bytes, all of them from there on.
inline __mmask16 lane_mask(std::size_t count) noexcept {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1U << count) - 1);
}
inline __mmask64 byte_mask(std::size_t count) noexcept { return count >= 64 ? kAllBytes : (__mmask64{1} << count) - 1; }

void copy(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    _mm512_storeu_si512(output + i, _mm512_xor_si512(_mm512_loadu_si512(input + i), flip_u8x64));
  }
  const __mmask64 mask = byte_mask(count - i);
  const __m512i last_u8x64 = _mm512_maskz_loadu_epi8(mask, input + i);
  _mm512_mask_storeu_epi8(output + i, mask, _mm512_xor_si512(last_u8x64, flip_u8x64));
}

struct Groups {
  __m512i u8x64[4];
};

inline Groups interleave_64(const std::uint8_t* const* rows, std::size_t i, __mmask64 mask,
                            __m512i flip_u8x64) noexcept {
  const __m512i order_i32x16 = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i row_u8x64[4];
  for (int r = 0; r < 4; ++r) {
    const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, rows[r] + i), flip_u8x64);
    row_u8x64[r] = _mm512_permutexvar_epi32(order_i32x16, codes_u8x64);
  }
  const __m512i low_01 = _mm512_unpacklo_epi8(row_u8x64[0], row_u8x64[1]);
  const __m512i low_23 = _mm512_unpacklo_epi8(row_u8x64[2], row_u8x64[3]);
  const __m512i high_01 = _mm512_unpackhi_epi8(row_u8x64[0], row_u8x64[1]);
  const __m512i high_23 = _mm512_unpackhi_epi8(row_u8x64[2], row_u8x64[3]);
  return {{_mm512_unpacklo_epi16(low_01, low_23), _mm512_unpackhi_epi16(low_01, low_23),
           _mm512_unpacklo_epi16(high_01, high_23), _mm512_unpackhi_epi16(high_01, high_23)}};
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
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.flip));
  Cursor cursor(run);
  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    const Groups groups = interleave_64(row, i, kAllBytes, flip_u8x64);
    for (std::size_t j = 0; j < 4; ++j, cursor.advance(16)) _mm512_storeu_si512(cursor.output, groups.u8x64[j]);
  }
  const Groups groups = interleave_64(row, i, byte_mask(run.count - i), flip_u8x64);
  for (std::size_t j = 0; i < run.count; ++j, i += 16, cursor.advance(16)) {
    _mm512_mask_storeu_epi32(cursor.output, lane_mask(run.count - i), groups.u8x64[j]);
  }
}

void sum_rows(const std::uint8_t* a, std::size_t a_row_stride, std::size_t m, std::size_t k,
              std::int32_t* sums) noexcept {
  const __m512i zero_u8x64 = _mm512_setzero_si512();
  for (std::size_t row = 0; row < m; ++row, a += a_row_stride) {
    __m512i sum_u64x8 = zero_u8x64;
    std::size_t i = 0;
    for (; i + 64 <= k; i += 64) {
      sum_u64x8 = _mm512_add_epi64(sum_u64x8, _mm512_sad_epu8(_mm512_loadu_si512(a + i), zero_u8x64));
    }
    const __m512i last_u8x64 = _mm512_maskz_loadu_epi8(byte_mask(k - i), a + i);
    sum_u64x8 = _mm512_add_epi64(sum_u64x8, _mm512_sad_epu8(last_u8x64, zero_u8x64));
    sums[row] = static_cast<std::int32_t>(_mm512_reduce_add_epi64(sum_u64x8));
  }
}

void sum_columns(const std::uint8_t* panel, std::size_t nr, std::size_t k, std::int32_t* sums) noexcept {
  const __m512i ones_i8x64 = _mm512_set1_epi8(1);
  for (std::size_t column = 0; column < nr; column += 16) {
    const __mmask16 mask = lane_mask(nr - column);
    const std::uint8_t* groups = panel + 4 * column;
    __m512i sum_i32x16[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};  // two chains: vpdpbusd takes 5 cycles
    std::size_t i = 0;
    for (; i + 8 <= k; i += 8, groups += 8 * nr) {
      sum_i32x16[0] = _mm512_dpbusd_epi32(sum_i32x16[0], _mm512_maskz_loadu_epi32(mask, groups), ones_i8x64);
      sum_i32x16[1] = _mm512_dpbusd_epi32(sum_i32x16[1], _mm512_maskz_loadu_epi32(mask, groups + 4 * nr), ones_i8x64);
    }
    if (i < k) sum_i32x16[0] = _mm512_dpbusd_epi32(sum_i32x16[0], _mm512_maskz_loadu_epi32(mask, groups), ones_i8x64);
    _mm512_mask_storeu_epi32(sums + column, mask, _mm512_add_epi32(sum_i32x16[0], sum_i32x16[1]));
  }
}

}  // namespace

constinit const PackKernels avx512_vnni::pack = {
    .copy = copy, .interleave = interleave, .sum_rows = sum_rows, .sum_columns = sum_columns};

}  // namespace dmlcpu
