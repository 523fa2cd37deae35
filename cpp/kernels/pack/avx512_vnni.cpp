// pack.h for AVX-512. Bound by memory, interleave by the shuffle port (12 shuffles for 256 bytes).
//
// interleave: byte and word unpacks of four rows make groups, but within 128-bit quarters: output j would hold the
// groups 4j..4j+3 of quarter 0, of quarter 1, ... So each row is permuted first, dword j of quarter q taking dword
// 4j + q: then output j holds groups 16j..16j+15 in order.
//
// vpsadbw sums into 64-bit lanes, of which the low half is the sum modulo 2^32.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/pack/pack.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/pack/few_order.inl.h"
#include "kernels/pack/transpose_halves.inl.h"

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

inline Groups interleave_64(const std::uint8_t* const* rows, std::size_t i, __mmask64 mask) noexcept {
  const __m512i order_i32x16 = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i row_u8x64[4];
  for (int r = 0; r < 4; ++r) {
    row_u8x64[r] = _mm512_permutexvar_epi32(order_i32x16, _mm512_maskz_loadu_epi8(mask, rows[r] + i));
  }
  const __m512i low_01 = _mm512_unpacklo_epi8(row_u8x64[0], row_u8x64[1]);
  const __m512i low_23 = _mm512_unpacklo_epi8(row_u8x64[2], row_u8x64[3]);
  const __m512i high_01 = _mm512_unpackhi_epi8(row_u8x64[0], row_u8x64[1]);
  const __m512i high_23 = _mm512_unpackhi_epi8(row_u8x64[2], row_u8x64[3]);
  return {{_mm512_unpacklo_epi16(low_01, low_23), _mm512_unpackhi_epi16(low_01, low_23),
           _mm512_unpacklo_epi16(high_01, high_23), _mm512_unpackhi_epi16(high_01, high_23)}};
}

// Whole lines only: a line that is written in parts would have to be fetched after all.
void stream(const std::uint8_t* input, std::size_t count, std::uint8_t* output) noexcept {
  const std::size_t to_line = (64 - reinterpret_cast<std::uintptr_t>(output) % 64) % 64;
  const std::size_t head = to_line < count ? to_line : count;
  const __mmask64 head_mask = (__mmask64{1} << head) - 1;  // head is at most 63
  _mm512_mask_storeu_epi8(output, head_mask, _mm512_maskz_loadu_epi8(head_mask, input));
  std::size_t i = head;
  for (; i + 64 <= count; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(output + i), _mm512_loadu_si512(input + i));
  }
  const __mmask64 tail_mask = (__mmask64{1} << (count - i)) - 1;
  _mm512_mask_storeu_epi8(output + i, tail_mask, _mm512_maskz_loadu_epi8(tail_mask, input + i));
}

// What a line of a cell has of a row: byte b of the line is input[b] where the mask has b.
struct PieceOfLine {
  const std::uint8_t* input;
  __mmask64 mask;
};

constexpr std::size_t kMostPiecesAtOnce = 4;

template <std::size_t count>
void spread_line(const SpreadPieces& pieces, const PieceOfLine* of_line, std::size_t line, __mmask64 stored) noexcept {
  PieceOfLine piece[count];
  for (std::size_t p = 0; p < count; ++p) piece[p] = of_line[p];
  std::uint8_t* output = pieces.output + line;
  for (std::size_t i = 0, at = 0; i < pieces.count; ++i, at += pieces.input_step) {
    __m512i codes_u8x64 = _mm512_maskz_loadu_epi8(piece[0].mask, piece[0].input + at);
    for (std::size_t p = 1; p < count; ++p) {
      codes_u8x64 = _mm512_mask_loadu_epi8(codes_u8x64, piece[p].mask, piece[p].input + at);
    }
    _mm512_mask_storeu_epi8(output, stored, codes_u8x64);
    output += pieces.output_step;
  }
}

// Lines are written as a whole, from as many pieces as a line has; by very short ones some at a time.
void spread(const SpreadPieces& pieces) noexcept {
  constexpr decltype(&spread_line<1>) kSpread[kMostPiecesAtOnce] = {spread_line<1>, spread_line<2>, spread_line<3>,
                                                                    spread_line<4>};
  const std::size_t piece_bytes = pieces.piece_bytes, bytes = pieces.rows * piece_bytes;
  for (std::size_t line = 0; line < bytes; line += 64) {
    const std::size_t last_row = (line + 63) / piece_bytes,
                      end_row = last_row < pieces.rows ? last_row + 1 : pieces.rows;
    const __mmask64 whole = byte_mask(pieces.output_step - line);
    bool is_first = true;
    for (std::size_t row = line / piece_bytes; row < end_row;) {
      PieceOfLine of_line[kMostPiecesAtOnce];
      std::size_t count = 0;
      __mmask64 merged = 0;
      for (; count < kMostPiecesAtOnce && row < end_row; ++count, ++row) {
        const std::size_t begin = row * piece_bytes, before = begin > line ? begin - line : 0;
        const __mmask64 mask = byte_mask(begin + piece_bytes - line) & ~byte_mask(before);
        of_line[count] = {pieces.inputs[row] + static_cast<std::ptrdiff_t>(line - begin), mask};
        merged |= mask;
      }
      kSpread[count - 1](pieces, of_line, line, is_first ? whole : merged);
      is_first = false;
    }
  }
}

void interleave(const InterleaveRun& run) noexcept {
  const std::uint8_t* const row[4] = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]};
  std::uint8_t* output = run.output;
  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64, output += 256) {
    const Groups groups = interleave_64(row, i, kAllBytes);
    for (std::size_t j = 0; j < 4; ++j) _mm512_storeu_si512(output + j * 64, groups.u8x64[j]);
  }
  const Groups groups = interleave_64(row, i, byte_mask(run.count - i));
  for (std::size_t j = 0; i < run.count; ++j, i += 16, output += 64) {
    _mm512_mask_storeu_epi32(output, lane_mask(run.count - i), groups.u8x64[j]);
  }
}

void interleave_panels(const PanelRun& run) noexcept {
  const std::uint8_t* const row[4] = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]};
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.flip));
  const std::size_t next_panel = run.panel_stride - run.nr * 4, count = run.count, nr = run.nr;
  std::uint8_t* output = run.output;
  std::size_t of_panel = 0;
  const auto store = [&](__mmask16 mask, __m512i groups_u8x64) {
    _mm512_mask_storeu_epi32(output, mask, _mm512_xor_si512(groups_u8x64, flip_u8x64));
    of_panel += 16;
    const bool ends = of_panel == nr;
    output += 64 + (ends ? next_panel : 0);
    of_panel = ends ? 0 : of_panel;
  };
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const Groups groups = interleave_64(row, i, kAllBytes);
    for (std::size_t j = 0; j < 4; ++j) store(0xffff, groups.u8x64[j]);
  }
  const Groups groups = interleave_64(row, i, byte_mask(count - i));
  for (std::size_t j = 0; i < count; ++j, i += 16) store(lane_mask(count - i), groups.u8x64[j]);
}

// 16 columns of 16 groups: a transposition of 32-bit elements.
inline void transpose_groups(__m512i (&column_x64)[16]) noexcept {
  __m512i pair_x64[16], four_x64[16];
  for (int i = 0; i < 16; i += 2) {
    pair_x64[i] = _mm512_unpacklo_epi32(column_x64[i], column_x64[i + 1]);
    pair_x64[i + 1] = _mm512_unpackhi_epi32(column_x64[i], column_x64[i + 1]);
  }
  // four_x64[4 j + r] holds group 4 q + r of columns 4 j to 4 j + 3 in quarter q.
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      four_x64[i + 2 * j] = _mm512_unpacklo_epi64(pair_x64[i + j], pair_x64[i + j + 2]);
      four_x64[i + 2 * j + 1] = _mm512_unpackhi_epi64(pair_x64[i + j], pair_x64[i + j + 2]);
    }
  }
  for (int r = 0; r < 4; ++r) {
    const __m512i low_01 = _mm512_shuffle_i32x4(four_x64[r], four_x64[r + 4], 0x44);
    const __m512i high_01 = _mm512_shuffle_i32x4(four_x64[r], four_x64[r + 4], 0xee);
    const __m512i low_23 = _mm512_shuffle_i32x4(four_x64[r + 8], four_x64[r + 12], 0x44);
    const __m512i high_23 = _mm512_shuffle_i32x4(four_x64[r + 8], four_x64[r + 12], 0xee);
    column_x64[r] = _mm512_shuffle_i32x4(low_01, low_23, 0x88);
    column_x64[r + 4] = _mm512_shuffle_i32x4(low_01, low_23, 0xdd);
    column_x64[r + 8] = _mm512_shuffle_i32x4(high_01, high_23, 0x88);
    column_x64[r + 12] = _mm512_shuffle_i32x4(high_01, high_23, 0xdd);
  }
}

void gather_groups(const GroupBlock& block) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(block.flip));
  constexpr std::size_t kAhead = 256;
  const std::size_t k_end = (block.k + 63) / 64 * 64, first_ahead = k_end > kAhead ? k_end - kAhead : 0;
  for (std::size_t column = 0; column < block.count; column += 16) {
    const std::size_t columns = block.count - column < 16 ? block.count - column : 16;
    const __mmask16 store_mask = lane_mask(columns);
    const std::uint8_t* codes = block.columns + column * block.column_stride;
    std::uint8_t* output = block.output + column * 4;
    for (std::size_t k = 0; k < block.k; k += 64) {
      const __mmask64 load_mask = byte_mask(block.k - k);
      // Columns far apart are many short streams, of which the pieces that follow, the next columns' after the last
      // ones, are fetched here.
      const std::size_t ahead = k + kAhead < k_end ? kAhead : 16 * block.column_stride - first_ahead;
      __m512i column_x64[16];
      for (std::size_t i = 0; i < 16; ++i) {
        const bool inside = i < columns;
        const std::uint8_t* source = codes + (inside ? i : 0) * block.column_stride + k;
        _mm_prefetch(reinterpret_cast<const char*>(source) + ahead, _MM_HINT_T0);
        column_x64[i] = _mm512_maskz_loadu_epi8(inside ? load_mask : 0, source);
        column_x64[i] = _mm512_xor_si512(column_x64[i], _mm512_maskz_mov_epi8(load_mask, flip_u8x64));
      }
      transpose_groups(column_x64);
      const std::size_t groups = block.k - k < 64 ? (block.k - k + 3) / 4 : 16;
#pragma GCC unroll 16
      for (std::size_t g = 0; g < 16; ++g) {
        if (g < groups) _mm512_mask_storeu_epi32(output + (k / 4 + g) * block.group_stride, store_mask, column_x64[g]);
      }
    }
  }
}

#include "kernels/pack/transpose_avx512_vnni.inl.h"

// The sum of each vector's 16 lanes, in order.
inline __m256i sums_of_lanes(const __m512i (&sum_i32x16)[8]) noexcept {
  __m512i pair_i32x16[4], four_i32x16[2];
  for (int i = 0; i < 4; ++i) {
    pair_i32x16[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(sum_i32x16[2 * i], sum_i32x16[2 * i + 1]),
                                      _mm512_unpackhi_epi32(sum_i32x16[2 * i], sum_i32x16[2 * i + 1]));
  }
  for (int i = 0; i < 2; ++i) {
    four_i32x16[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pair_i32x16[2 * i], pair_i32x16[2 * i + 1]),
                                      _mm512_unpackhi_epi64(pair_i32x16[2 * i], pair_i32x16[2 * i + 1]));
  }
  const __m512i halves_i32x16 = _mm512_add_epi32(_mm512_shuffle_i32x4(four_i32x16[0], four_i32x16[1], 0x88),
                                                 _mm512_shuffle_i32x4(four_i32x16[0], four_i32x16[1], 0xdd));
  const __m512i sums_i32x16 = _mm512_add_epi32(halves_i32x16, _mm512_shuffle_i32x4(halves_i32x16, halves_i32x16, 0xb1));
  return _mm512_castsi512_si256(_mm512_shuffle_i32x4(sums_i32x16, sums_i32x16, 0x88));
}

// Eight rows at a time, whose sums are gathered together; the last ones repeat the last row. vpdpbusd adds four codes,
// as products with 1: its first factors are unsigned, its second ones signed.
template <bool is_signed>
void sum_codes(const SummedRows& rows, std::int32_t* sums) noexcept {
  const __m512i one_i8x64 = _mm512_set1_epi8(1);
  const auto add_codes = [&](__m512i sum_i32x16, __m512i codes_x64) __attribute__((always_inline)) {
    return is_signed ? _mm512_dpbusd_epi32(sum_i32x16, one_i8x64, codes_x64)
                     : _mm512_dpbusd_epi32(sum_i32x16, codes_x64, one_i8x64);
  };
  const __mmask64 mask = byte_mask(rows.k % 64);
  for (std::size_t row = 0; row < rows.m; row += 8) {
    const std::size_t left = rows.m - row < 8 ? rows.m - row : 8;
    const std::uint8_t* of_row[8];
    __m512i sum_i32x16[8];
    for (std::size_t r = 0; r < 8; ++r) {
      of_row[r] = rows.a + (row + (r < left ? r : left - 1)) * rows.a_row_stride;
      sum_i32x16[r] = _mm512_setzero_si512();
    }
    for (std::size_t segment = 0; segment < rows.segments; ++segment) {
      std::size_t i = rows.a_offsets[segment];
      const std::size_t end = i + rows.k;
      for (; i + 64 <= end; i += 64) {
        for (std::size_t r = 0; r < 8; ++r) {
          sum_i32x16[r] = add_codes(sum_i32x16[r], _mm512_loadu_si512(of_row[r] + i));
        }
      }
      if (i == end) continue;
      for (std::size_t r = 0; r < 8; ++r) {
        sum_i32x16[r] = add_codes(sum_i32x16[r], _mm512_maskz_loadu_epi8(mask, of_row[r] + i));
      }
    }
    _mm256_mask_storeu_epi32(sums + row, static_cast<__mmask8>((1U << left) - 1), sums_of_lanes(sum_i32x16));
  }
}

void sum_rows(const SummedRows& rows, std::int32_t* sums) noexcept {
  rows.a_is_signed ? sum_codes<true>(rows, sums) : sum_codes<false>(rows, sums);
}

}  // namespace

constinit const PackKernels avx512_vnni::pack = {.copy = copy,
                                                 .stream = stream,
                                                 .spread = spread,
                                                 .interleave = interleave,
                                                 .interleave_panels = interleave_panels,
                                                 .gather_groups = gather_groups,
                                                 .transpose = transpose,
                                                 .sum_rows = sum_rows};

}  // namespace dmlcpu
