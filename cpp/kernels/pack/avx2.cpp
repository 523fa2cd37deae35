// pack.h for AVX2. Bound by memory, interleave by the shuffle port (12 shuffles for 128 bytes).
//
// interleave: byte and word unpacks of four rows make groups, but within 128-bit halves: output j would hold the groups
// 4j..4j+3 of half 0, then of half 1. So each row is permuted first, dword j of half h taking dword 2j + h: then output
// j holds groups 8j..8j+7 in order.
//
// vpsadbw sums into 64-bit lanes, of which the low half is the sum modulo 2^32.
#include <immintrin.h>

#include <cstring>

#include "kernels/pack/pack.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/pack/few_order.inl.h"
#include "kernels/pack/transpose_halves.inl.h"

inline __m256i load(const std::uint8_t* input) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input));
}

inline void store(std::uint8_t* output, __m256i value_u8x32) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), value_u8x32);
}

void copy(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) store(output + i, _mm256_xor_si256(load(input + i), flip_u8x32));
  for (; i < count; ++i) output[i] = static_cast<std::uint8_t>(input[i] ^ flip);
}

// Whole lines only: a line that is written in parts would have to be fetched after all.
void stream(const std::uint8_t* input, std::size_t count, std::uint8_t* output) noexcept {
  const std::size_t to_line = (64 - reinterpret_cast<std::uintptr_t>(output) % 64) % 64;
  const std::size_t head = to_line < count ? to_line : count;
  std::memcpy(output, input, head);
  std::size_t i = head;
  for (; i + 64 <= count; i += 64) {
    for (std::size_t half = 0; half < 64; half += 32) {
      const __m256i bytes_u8x32 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input + i + half));
      _mm256_stream_si256(reinterpret_cast<__m256i*>(output + i + half), bytes_u8x32);
    }
  }
  std::memcpy(output + i, input + i, count - i);
}

void spread(const SpreadPieces& pieces) noexcept {
  for (std::size_t r = 0; r < pieces.rows; ++r) {
    std::uint8_t* const output = pieces.output + r * pieces.piece_bytes;
    for (std::size_t i = 0; i < pieces.count; ++i) {
      copy(pieces.inputs[r] + i * pieces.input_step, pieces.piece_bytes, 0, output + i * pieces.output_step);
    }
  }
}

struct Groups {
  __m256i u8x32[4];
};

inline Groups interleave_32(const std::uint8_t* const* rows, std::size_t i) noexcept {
  const __m256i order_i32x8 = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  __m256i row_u8x32[4];
  for (int r = 0; r < 4; ++r) row_u8x32[r] = _mm256_permutevar8x32_epi32(load(rows[r] + i), order_i32x8);
  const __m256i low_01 = _mm256_unpacklo_epi8(row_u8x32[0], row_u8x32[1]);
  const __m256i low_23 = _mm256_unpacklo_epi8(row_u8x32[2], row_u8x32[3]);
  const __m256i high_01 = _mm256_unpackhi_epi8(row_u8x32[0], row_u8x32[1]);
  const __m256i high_23 = _mm256_unpackhi_epi8(row_u8x32[2], row_u8x32[3]);
  return {{_mm256_unpacklo_epi16(low_01, low_23), _mm256_unpackhi_epi16(low_01, low_23),
           _mm256_unpacklo_epi16(high_01, high_23), _mm256_unpackhi_epi16(high_01, high_23)}};
}

void interleave(const InterleaveRun& run) noexcept {
  const std::uint8_t* const row[4] = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]};
  std::uint8_t* output = run.output;
  std::size_t i = 0;
  for (; i + 32 <= run.count; i += 32, output += 128) {
    const Groups groups = interleave_32(row, i);
    for (std::size_t j = 0; j < 4; ++j) store(output + j * 32, groups.u8x32[j]);
  }
  for (; i < run.count; ++i, output += 4) {
    for (std::size_t r = 0; r < 4; ++r) output[r] = row[r][i];
  }
}

void interleave_panels(const PanelRun& run) noexcept {
  const std::uint8_t* const row[4] = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]};
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.flip));
  std::uint8_t* panel = run.output;
  for (std::size_t first = 0; first < run.count; first += run.nr, panel += run.panel_stride) {
    const std::size_t end = run.count - first < run.nr ? run.count : first + run.nr;
    std::uint8_t* output = panel;
    std::size_t i = first;
    for (; i + 32 <= end; i += 32, output += 128) {
      const Groups groups = interleave_32(row, i);
      for (std::size_t j = 0; j < 4; ++j) store(output + j * 32, _mm256_xor_si256(groups.u8x32[j], flip_u8x32));
    }
    for (; i + 16 <= end; i += 16, output += 64) {
      __m128i row_u8x16[4];
      for (int r = 0; r < 4; ++r) row_u8x16[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r] + i));
      const __m128i low_01 = _mm_unpacklo_epi8(row_u8x16[0], row_u8x16[1]);
      const __m128i low_23 = _mm_unpacklo_epi8(row_u8x16[2], row_u8x16[3]);
      const __m128i high_01 = _mm_unpackhi_epi8(row_u8x16[0], row_u8x16[1]);
      const __m128i high_23 = _mm_unpackhi_epi8(row_u8x16[2], row_u8x16[3]);
      store(output,
            _mm256_xor_si256(_mm256_set_m128i(_mm_unpackhi_epi16(low_01, low_23), _mm_unpacklo_epi16(low_01, low_23)),
                             flip_u8x32));
      store(output + 32, _mm256_xor_si256(_mm256_set_m128i(_mm_unpackhi_epi16(high_01, high_23),
                                                           _mm_unpacklo_epi16(high_01, high_23)),
                                          flip_u8x32));
    }
    for (; i < end; ++i, output += 4) {
      for (std::size_t r = 0; r < 4; ++r) output[r] = static_cast<std::uint8_t>(row[r][i] ^ run.flip);
    }
  }
}

// 8 columns of 8 groups: a transposition of 32-bit elements.
inline void transpose_groups(__m256i (&column_x32)[8]) noexcept {
  __m256i pair_x32[8];
  for (int i = 0; i < 8; i += 2) {
    pair_x32[i] = _mm256_unpacklo_epi32(column_x32[i], column_x32[i + 1]);
    pair_x32[i + 1] = _mm256_unpackhi_epi32(column_x32[i], column_x32[i + 1]);
  }
  __m256i four_x32[8];
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      four_x32[i + 2 * j] = _mm256_unpacklo_epi64(pair_x32[i + j], pair_x32[i + j + 2]);
      four_x32[i + 2 * j + 1] = _mm256_unpackhi_epi64(pair_x32[i + j], pair_x32[i + j + 2]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    column_x32[i] = _mm256_permute2x128_si256(four_x32[i], four_x32[i + 4], 0x20);
    column_x32[i + 4] = _mm256_permute2x128_si256(four_x32[i], four_x32[i + 4], 0x31);
  }
}

// Of 8 columns and 8 groups.
inline void gather_eight(const GroupBlock& block, std::size_t column, std::size_t k, __m256i flip_u8x32) noexcept {
  const std::uint8_t* codes = block.columns + column * block.column_stride + k;
  __m256i column_x32[8];
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint8_t* source = codes + i * block.column_stride;
    // Columns far apart are many short streams, of which the next pieces are fetched here.
    _mm_prefetch(reinterpret_cast<const char*>(source) + 16 * block.column_stride, _MM_HINT_T0);
    column_x32[i] = _mm256_xor_si256(load(source), flip_u8x32);
  }
  transpose_groups(column_x32);
  std::uint8_t* output = block.output + column * 4 + k / 4 * block.group_stride;
  for (std::size_t g = 0; g < 8; ++g) store(output + g * block.group_stride, column_x32[g]);
}

// The terms from k on of some columns, and zeros up to a multiple of four.
void gather_rest(const GroupBlock& operands, std::size_t first, std::size_t end, std::size_t k) noexcept {
  const GroupBlock block = operands;  // a copy: bytes of output could alias the original
  for (; k < block.k; k += 4) {
    const std::size_t bytes = block.k - k < 4 ? block.k - k : 4;
    const std::uint32_t flip = block.flip * (0x01010101U >> (8 * (4 - bytes)));
    for (std::size_t column = first; column < end; ++column) {
      const std::uint8_t* codes = block.columns + column * block.column_stride + k;
      std::uint32_t group = 0;
      if (bytes == 4) {
        std::memcpy(&group, codes, 4);
      } else {
        std::memcpy(&group, codes, bytes);
      }
      group ^= flip;
      std::memcpy(block.output + k / 4 * block.group_stride + column * 4, &group, 4);
    }
  }
}

// What is left at an end is taken with its neighbours once more, where there are as many.
void gather_groups(const GroupBlock& block) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));
  if (block.count < 8) return gather_rest(block, 0, block.count, 0);
  const bool has_whole_groups = block.k >= 32 && block.k % 4 == 0;
  for (std::size_t next = 0; next < block.count; next += 8) {
    const std::size_t column = next + 8 <= block.count ? next : block.count - 8;
    std::size_t k = 0;
    for (; k + 32 <= block.k; k += 32) gather_eight(block, column, k, flip_u8x32);
    if (k == block.k) continue;
    has_whole_groups ? gather_eight(block, column, block.k - 32, flip_u8x32)
                     : gather_rest(block, column, column + 8, k);
  }
}

#include "kernels/pack/transpose_avx2.inl.h"

// Signed codes become unsigned, which makes each 128 more.
void sum_rows(const SummedRows& rows, std::int32_t* sums) noexcept {
  const __m256i zero_u8x32 = _mm256_setzero_si256();
  const std::uint8_t flip = rows.a_is_signed ? 0x80 : 0;
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  const __m128i flip_u8x8 = _mm_move_epi64(_mm256_castsi256_si128(flip_u8x32));
  const std::uint32_t surplus = static_cast<std::uint32_t>(rows.segments * rows.k) * flip;
  for (std::size_t row = 0; row < rows.m; ++row) {
    __m256i sum_u64x4 = zero_u8x32;
    __m128i of_eights_u64x2 = _mm_setzero_si128();
    std::uint32_t last = 0U - surplus;
    for (std::size_t segment = 0; segment < rows.segments; ++segment) {
      const std::uint8_t* a = rows.a + row * rows.a_row_stride + rows.a_offsets[segment];
      std::size_t i = 0;
      for (; i + 32 <= rows.k; i += 32) {
        sum_u64x4 = _mm256_add_epi64(sum_u64x4, _mm256_sad_epu8(_mm256_xor_si256(load(a + i), flip_u8x32), zero_u8x32));
      }
      for (; i + 8 <= rows.k; i += 8) {
        const __m128i eight_u8x8 = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(a + i));
        const __m128i codes_u8x8 = _mm_xor_si128(eight_u8x8, flip_u8x8);
        of_eights_u64x2 = _mm_add_epi64(of_eights_u64x2, _mm_sad_epu8(codes_u8x8, _mm_setzero_si128()));
      }
      for (; i < rows.k; ++i) last += static_cast<std::uint8_t>(a[i] ^ flip);
    }
    const __m128i halves_u64x2 =
        _mm_add_epi64(_mm256_castsi256_si128(sum_u64x4), _mm256_extracti128_si256(sum_u64x4, 1));
    const __m128i sum_u64x2 = _mm_add_epi64(halves_u64x2, of_eights_u64x2);
    const __m128i sum_u64x1 = _mm_add_epi64(sum_u64x2, _mm_unpackhi_epi64(sum_u64x2, sum_u64x2));
    sums[row] = _mm_cvtsi128_si32(_mm_add_epi32(sum_u64x1, _mm_cvtsi32_si128(static_cast<std::int32_t>(last))));
  }
}

}  // namespace

constinit const PackKernels avx2::pack = {.copy = copy,
                                          .stream = stream,
                                          .spread = spread,
                                          .interleave = interleave,
                                          .interleave_panels = interleave_panels,
                                          .gather_groups = gather_groups,
                                          .transpose = transpose,
                                          .sum_rows = sum_rows};

}  // namespace dmlcpu
