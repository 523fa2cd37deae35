// The product of gemm.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, whose pair sums
// (at most 2 * 255 * 128 in magnitude) fit 32 bits.
//
// A lane of 32 bits takes two products, so four k of a column take two lanes, whose sums meet at the end of k:
//
//   b, widened   [c0: k0 k1] [c0: k2 k3] [c1: k0 k1] [c1: k2 k3] | [c2 ...          8 columns in two vectors
//   a, widened   [    k0 k1] [    k2 k3] [    k0 k1] [    k2 k3] | ...              64 bits, broadcast
//
// Tile 6 x 16, one half of the columns after the other: 12 accumulators, 2 vectors of b, 1 of a, 1 of products. b is
// widened as it is loaded, 2 operations for 24 of products and sums. A tile's rows of a are widened into a buffer, some
// hundred k at a time, once for many panels. Bound by the three vector ports.
//
// Filters of few bits are quicker: where neighbours in k are small enough together, vpmaddubsw does not saturate.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx2.inl.h"

constexpr std::size_t kMr = 6, kNr = 16, kKr = 4;

// Some terms of the sums of a tile: a's, widened, and where the terms of b stand in a panel, in pieces.
constexpr std::size_t kMostTerms = 1024, kMostPieces = 32;
struct Piece {
  std::size_t offset, terms;
  std::size_t end() const noexcept { return offset + terms * kNr; }
};
template <std::size_t rows>
struct Terms {
  alignas(32) std::uint16_t a[rows][kMostTerms + 16];
  Piece pieces[kMostPieces];
  std::size_t count, piece_count;
};

// A place in the terms of a block.
struct Position {
  std::size_t segment = 0, k = 0;
};

// The next codes of all rows, behind those that are there: steps of 16, then of 8 and of 4.
template <std::size_t rows>
inline void widen(const std::uint8_t* from, std::size_t row_stride, std::size_t count, Terms<rows>& terms) noexcept {
  const std::size_t at = terms.count;  // a copy: what is stored could alias the original
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
#pragma GCC unroll 6
    for (std::size_t row = 0; row < rows; ++row) {
      const __m128i codes_u8x16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * row_stride + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(terms.a[row] + at + i), _mm256_cvtepu8_epi16(codes_u8x16));
    }
  }
  if (i + 8 <= count) {
#pragma GCC unroll 6
    for (std::size_t row = 0; row < rows; ++row) {
      const __m128i codes_u8x8 = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + row * row_stride + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(terms.a[row] + at + i), _mm_cvtepu8_epi16(codes_u8x8));
    }
    i += 8;
  }
  if (i != count) {
#pragma GCC unroll 6
    for (std::size_t row = 0; row < rows; ++row) {
      const __m128i codes_u8x4 = _mm_loadu_si32(from + row * row_stride + i);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(terms.a[row] + at + i), _mm_cvtepu8_epi16(codes_u8x4));
    }
  }
  terms.count = at + count;
}

// Takes as many of the next terms as there is room for.
template <std::size_t rows>
inline void take_terms(const GemmBlock& block, const Tile& tile, Position& next, Terms<rows>& terms) noexcept {
  terms.count = terms.piece_count = 0;
  while (next.segment < block.segments && terms.count < kMostTerms && terms.piece_count < kMostPieces) {
    const std::size_t left = block.k - next.k, room = kMostTerms - terms.count, count = left < room ? left : room;
    widen(tile.a + block.a_offsets[next.segment] + next.k, block.a_row_stride, count, terms);
    const std::size_t offset = block.b_offsets[next.segment] + next.k * kNr;
    if (terms.piece_count == 0 || terms.pieces[terms.piece_count - 1].end() != offset) {
      terms.pieces[terms.piece_count++] = {offset, 0};
    }
    terms.pieces[terms.piece_count - 1].terms += count;
    next.k += count;
    if (next.k == block.k) next = {next.segment + 1, 0};
  }
}

// A panel of b may come from behind the level-2 cache: it is fetched 32 steps of k ahead, for both halves: one row
// takes 1.4 times as long if the first alone does so. A hint reads nothing, so it may point behind the operand.
constexpr std::size_t kPrefetchedBytes = 32 * 4 * kNr;

// Adds terms to the sums of 8 columns.
template <std::size_t rows>
inline void multiply_half(const Terms<rows>& terms, const std::uint8_t* panel, std::size_t half,
                          __m256i (&sum_i32x8)[rows][2]) noexcept {
  __m256i acc_i32x8[rows][2] = {};
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < terms.piece_count; ++piece) {
    const std::uint8_t* b = panel + terms.pieces[piece].offset + 32 * half;
    for (const std::size_t end = at + terms.pieces[piece].terms; at != end; at += 4, b += 4 * kNr) {
      _mm_prefetch(b + kPrefetchedBytes, _MM_HINT_T0);
      const __m256i b0_i16x16 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(b)));
      const __m256i b1_i16x16 = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(b + 16)));
      for (std::size_t row = 0; row < rows; ++row) {
        long long group;
        __builtin_memcpy(&group, terms.a[row] + at, sizeof(group));
        const __m256i a_i16x16 = _mm256_set1_epi64x(group);
        acc_i32x8[row][0] = _mm256_add_epi32(acc_i32x8[row][0], _mm256_madd_epi16(a_i16x16, b0_i16x16));
        acc_i32x8[row][1] = _mm256_add_epi32(acc_i32x8[row][1], _mm256_madd_epi16(a_i16x16, b1_i16x16));
      }
    }
  }
  // The two lanes of a column meet; 64 bits of either vector follow each other then.
  for (std::size_t row = 0; row < rows; ++row) {
    const __m256i mixed_i32x8 = _mm256_hadd_epi32(acc_i32x8[row][0], acc_i32x8[row][1]);
    sum_i32x8[row][half] = _mm256_add_epi32(sum_i32x8[row][half], _mm256_permute4x64_epi64(mixed_i32x8, 0xd8));
  }
}

// Neighbouring panels whose sums a tile's rows make at a time, so that their terms are widened once: as many as stay in
// half of a small level-2 cache.
constexpr std::size_t kMostPanels = 16, kLevel2Bytes = 1 << 18;

std::size_t panels_at_once(const GemmBlock& block) noexcept {
  const std::size_t panel = block.segments * block.k * kNr;
  const std::size_t fitting = panel == 0 ? kMostPanels : kLevel2Bytes / panel;
  return fitting < 1 ? 1 : fitting < kMostPanels ? fitting : kMostPanels;
}

// The sums of a tile before its first products.
template <std::size_t rows>
inline void begin_sums(const GemmBlock& block, std::size_t panel, __m256i (&sum_i32x8)[rows][2]) noexcept {
  for (auto& of_row : sum_i32x8) {
    of_row[0] = load(block.offset + panel);
    of_row[1] = load(block.offset + panel + 8);
  }
}

// Adds terms to the sums of those columns of a panel that the block has.
template <std::size_t rows>
inline void multiply_panel(const GemmBlock& block, const Terms<rows>& terms, std::size_t panel,
                           __m256i (&sum_i32x8)[rows][2]) noexcept {
  const std::uint8_t* b = block.b + panel / kNr * block.b_panel_stride;
  multiply_half(terms, b, 0, sum_i32x8);
  if (block.n - panel > 8) multiply_half(terms, b, 1, sum_i32x8);
}

// Rows of a run by the columns from `first` to before `end`, of more terms than the buffer holds: the sums of all
// panels wait for the next terms.
template <std::size_t rows>
void multiply_many_terms(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                         std::size_t end) noexcept {
  __m256i sum_i32x8[kMostPanels][rows][2];
  const auto tile = [&](std::size_t panel) { return tile_of(block, kNr, panel, run, first_row, rows); };
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) begin_sums(block, panel, sum_i32x8[i]);
  Terms<rows> terms;
  for (Position next; next.segment < block.segments;) {
    take_terms(block, tile(first), next, terms);
    for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) {
      multiply_panel(block, terms, panel, sum_i32x8[i]);
    }
  }
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) store_rows(block, tile(panel), sum_i32x8[i]);
}

// The same, of any terms.
template <std::size_t rows>
void multiply_rows(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                   std::size_t end) noexcept {
  const auto tile = [&](std::size_t panel) { return tile_of(block, kNr, panel, run, first_row, rows); };
  Terms<rows> terms;
  Position next;
  take_terms(block, tile(first), next, terms);
  if (next.segment < block.segments) return multiply_many_terms<rows>(block, run, first_row, first, end);
  for (std::size_t panel = first; panel < end; panel += kNr) {
    __m256i sum_i32x8[rows][2];
    begin_sums(block, panel, sum_i32x8);
    multiply_panel(block, terms, panel, sum_i32x8);
    store_rows(block, tile(panel), sum_i32x8);
  }
}

using RowsFunction = void (*)(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                              std::size_t end) noexcept;
constexpr RowsFunction kRowsFunctions[kMr] = {multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                              multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};

// Whether vpmaddubsw is exact for panels of b: where the sum of two neighbours in k is within +-128, sums of their
// products with 0..255 are within +-255 * 128, and fit 16 bits.
bool pairs_fit(const GemmBlock& block, std::size_t first, std::size_t end) noexcept {
  constexpr std::size_t kStretch = 1024;
  const __m256i ones_u8x32 = _mm256_set1_epi8(1), most_i16x16 = _mm256_set1_epi16(128);
  const auto exceeds = [&](const std::uint8_t* pairs) {
    const __m256i sum_i16x16 =
        _mm256_maddubs_epi16(ones_u8x32, _mm256_load_si256(reinterpret_cast<const __m256i*>(pairs)));
    return _mm256_cmpgt_epi16(_mm256_abs_epi16(sum_i16x16), most_i16x16);
  };
  for (std::size_t panel = first; panel < end; panel += kNr) {
    for (std::size_t segment = 0; segment < block.segments; ++segment) {
      const std::uint8_t* b = block.b + panel / kNr * block.b_panel_stride + block.b_offsets[segment];
      for (std::size_t at = 0; at < block.k * kNr; at += kStretch) {
        const std::size_t left = block.k * kNr - at, stretch = left < kStretch ? left : kStretch;
        __m256i found = _mm256_setzero_si256();
        for (std::size_t i = at; i != at + stretch; i += 64) {
          found = _mm256_or_si256(found, _mm256_or_si256(exceeds(b + i), exceeds(b + i + 32)));
        }
        if (_mm256_testz_si256(found, found) == 0) return false;
      }
    }
  }
  return true;
}

// A tile whose pairs of b fit: three operations for 32 products, and nothing to widen.
template <std::size_t rows>
void multiply_pairs(const GemmBlock& block, const Tile& tile) noexcept {
  __m256i acc_i32x8[rows][2];
  for (std::size_t row = 0; row < rows; ++row) {
    acc_i32x8[row][0] = load(tile.offset);
    acc_i32x8[row][1] = load(tile.offset + 8);
  }
  const __m256i ones_i16x16 = _mm256_set1_epi16(1);
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    const std::uint8_t* a = tile.a + block.a_offsets[segment];
    const std::uint8_t* b = tile.b + block.b_offsets[segment];
    for (const std::uint8_t* end = b + block.k * kNr; b != end; b += 4 * kNr, a += 4) {
      const auto* b_x32 = reinterpret_cast<const __m256i*>(b);
      for (std::size_t row = 0; row < rows; ++row) {
        int group;
        __builtin_memcpy(&group, a + row * block.a_row_stride, sizeof(group));
        const __m256i a_x32 = _mm256_set1_epi32(group);
        for (std::size_t half = 0; half < 2; ++half) {
          const __m256i pairs_i16x16 = _mm256_maddubs_epi16(a_x32, _mm256_load_si256(b_x32 + half));
          acc_i32x8[row][half] = _mm256_add_epi32(acc_i32x8[row][half], _mm256_madd_epi16(pairs_i16x16, ones_i16x16));
        }
      }
    }
  }
  store_rows(block, tile, acc_i32x8);
}

using TileFunction = void (*)(const GemmBlock& block, const Tile& tile) noexcept;
constexpr TileFunction kPairsFunctions[kMr] = {multiply_pairs<1>, multiply_pairs<2>, multiply_pairs<3>,
                                               multiply_pairs<4>, multiply_pairs<5>, multiply_pairs<6>};

// Rows that a look at all of b is worth: it costs about as much as two of them.
constexpr std::size_t kManyRows = 24;

void multiply(const GemmBlock& block) noexcept {
  const Parts parts(block.m, kMr);
  const std::size_t columns = panels_at_once(block) * kNr;
  for (std::size_t first = 0; first < block.n; first += columns) {
    const std::size_t end = block.n - first < columns ? block.n : first + columns;
    if (block.runs * block.m >= kManyRows && pairs_fit(block, first, end)) {
      for_each_tile(block, kMr, kNr, first, end,
                    [&](const Tile& tile) noexcept { kPairsFunctions[tile.rows - 1](block, tile); });
      continue;
    }
    for (std::size_t run = 0; run < block.runs; ++run) {
      for (std::size_t part = 0; part < parts.count; ++part) {
        kRowsFunctions[parts.rows_of(part) - 1](block, run, parts.first_row(part), first, end);
      }
    }
  }
}

}  // namespace

constinit const GemmKernels avx2::gemm = {.mr = kMr,
                                          .nr = kNr,
                                          .kr = kKr,
                                          .products_per_cycle = 32,
                                          .cycles_of_rows = 0,
                                          .cycles_of_area = 0,
                                          .multiplies_signed = false,
                                          .most_joined = 0,
                                          .least_columns = kNr,
                                          .multiply = multiply};

}  // namespace dmlcpu
