// The product of gemm.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, whose pair sums
// (at most 2 * 255 * 128 in magnitude) fit 32 bits.
//
// A lane of 32 bits takes two products, so four k of a column take two lanes, whose sums meet at the end of k:
//
//   b, widened   [c0: k0 k1] [c0: k2 k3] [c1: k0 k1] [c1: k2 k3] | [c2 ...          8 columns in two vectors
//   a, widened   [    k0 k1] [    k2 k3] [    k0 k1] [    k2 k3] | ...              64 bits, broadcast
//
// Tile 6 x 16, one half of the columns after the other, of up to three rows both at a time: 12 accumulators, 2 vectors
// of b, 1 of a, 1 of products. b is widened as it is loaded, 2 operations for 24 of products and sums. A tile's rows of
// a are widened into a buffer, some hundred k at a time, once for many panels. Bound by the vector ports, as additions
// go to those of products, too.
//
// Small codes are quicker: where neighbours in k of the filter are small enough together, vpmaddubsw does not saturate
// (avx2_step_order.inl.h), nor where activations are (avx2_clipped_terms.inl.h).
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/gemm/gemm.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/pair_sums_avx2.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx2.inl.h"

constexpr std::size_t kMr = 6, kNr = 16, kKr = 4;
static_assert(kMostPanelColumns % kNr == 0);

inline __m256i load_codes(const std::uint8_t* codes) noexcept {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
}
// Four codes in all lanes.
inline __m256i broadcast(const std::uint8_t* codes) noexcept {
  int four;
  __builtin_memcpy(&four, codes, sizeof(four));
  return _mm256_set1_epi32(four);
}

#include "kernels/gemm/avx2_step_adder.inl.h"
#include "kernels/gemm/avx2_step_order.inl.h"

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
      const __m128i codes_u8x4 = _mm256_castsi256_si128(broadcast(from + row * row_stride + i));
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

// Few rows make the sums of both halves of a panel at a time.
constexpr std::size_t kFewRows = 3;

// A panel of b may come from behind the level-2 cache: for few rows, which wait for it, it is fetched 32 steps of k
// ahead. A hint reads nothing, so it may point behind the operand.
constexpr std::size_t kPrefetchedBytes = 32 * 4 * kNr;

// Adds terms to the sums of half a panel, or of all of it.
template <std::size_t rows, std::size_t halves>
inline void multiply_halves(const Terms<rows>& terms, const std::uint8_t* panel, std::size_t first_half,
                            __m256i (&sum_i32x8)[rows][2]) noexcept {
  __m256i acc_i32x8[rows][2 * halves] = {};
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < terms.piece_count; ++piece) {
    const std::uint8_t* b = panel + terms.pieces[piece].offset + 32 * first_half;
    for (const std::size_t end = at + terms.pieces[piece].terms; at != end; at += 4, b += 4 * kNr) {
      if constexpr (rows <= kFewRows) _mm_prefetch(b + kPrefetchedBytes, _MM_HINT_T0);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        const auto* codes = reinterpret_cast<const __m128i*>(b + 32 * half);
        const __m256i b0_i16x16 = _mm256_cvtepi8_epi16(_mm_load_si128(codes));
        const __m256i b1_i16x16 = _mm256_cvtepi8_epi16(_mm_load_si128(codes + 1));
#pragma GCC unroll 6
        for (std::size_t row = 0; row < rows; ++row) {
          long long group;
          __builtin_memcpy(&group, terms.a[row] + at, sizeof(group));
          const __m256i a_i16x16 = _mm256_set1_epi64x(group);
          __m256i(&acc)[2 * halves] = acc_i32x8[row];
          acc[2 * half] = _mm256_add_epi32(acc[2 * half], _mm256_madd_epi16(a_i16x16, b0_i16x16));
          acc[2 * half + 1] = _mm256_add_epi32(acc[2 * half + 1], _mm256_madd_epi16(a_i16x16, b1_i16x16));
        }
      }
    }
  }
  // The two lanes of a column meet; 64 bits of either vector follow each other then.
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i mixed_i32x8 = _mm256_hadd_epi32(acc_i32x8[row][2 * half], acc_i32x8[row][2 * half + 1]);
      __m256i& sum = sum_i32x8[row][first_half + half];
      sum = _mm256_add_epi32(sum, _mm256_permute4x64_epi64(mixed_i32x8, 0xd8));
    }
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
template <std::size_t rows, std::size_t halves>
inline void begin_sums(const std::int32_t* offset, __m256i (&sum_i32x8)[rows][halves]) noexcept {
  for (auto& of_row : sum_i32x8) {
    for (std::size_t half = 0; half < halves; ++half) of_row[half] = load(offset + 8 * half);
  }
}

// Adds terms to the sums of those columns of a panel that the block has.
template <std::size_t rows>
inline void multiply_panel(const GemmBlock& block, const Terms<rows>& terms, std::size_t panel,
                           __m256i (&sum_i32x8)[rows][2]) noexcept {
  const std::uint8_t* b = block.b + panel / kNr * block.b_panel_stride;
  const bool is_whole = block.n - panel > 8;
  if constexpr (rows <= kFewRows) {
    if (is_whole) return multiply_halves<rows, 2>(terms, b, 0, sum_i32x8);
  }
  multiply_halves<rows, 1>(terms, b, 0, sum_i32x8);
  if (is_whole) multiply_halves<rows, 1>(terms, b, 1, sum_i32x8);
}

// Rows of a run by the columns from `first` to before `end`, of more terms than the buffer holds: the sums of all
// panels wait for the next terms.
template <std::size_t rows>
void multiply_many_terms(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                         std::size_t end) noexcept {
  __m256i sum_i32x8[kMostPanels][rows][2];
  const auto tile = [&](std::size_t panel) { return tile_of(block, kNr, panel, run, first_row, rows); };
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) begin_sums(block.offset + panel, sum_i32x8[i]);
  Terms<rows> terms;
  for (Position next; next.segment < block.segments;) {
    take_terms(block, tile(first), next, terms);
    for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) {
      multiply_panel(block, terms, panel, sum_i32x8[i]);
    }
  }
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) {
    RowStorage(block, tile(panel)).store(sum_i32x8[i]);
  }
}

// The same, of any terms.
template <std::size_t rows>
void multiply_rows(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                   std::size_t end) noexcept {
  if (block.segments > kMostPieces || block.segments * block.k > kMostTerms) {
    return multiply_many_terms<rows>(block, run, first_row, first, end);
  }
  const auto tile = [&](std::size_t panel) { return tile_of(block, kNr, panel, run, first_row, rows); };
  Terms<rows> terms;
  Position next;
  take_terms(block, tile(first), next, terms);
  for (std::size_t panel = first; panel < end; panel += kNr) {
    __m256i sum_i32x8[rows][2];
    begin_sums(block.offset + panel, sum_i32x8);
    multiply_panel(block, terms, panel, sum_i32x8);
    RowStorage(block, tile(panel)).store(sum_i32x8);
  }
}

using RowsFunction = void (*)(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                              std::size_t end) noexcept;
constexpr RowsFunction kRowsFunctions[kMr] = {multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                              multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};

// Rows that a look at all of b is worth: it costs about as much as three of them.
constexpr std::size_t kManyRows = 24;
// Terms from which fewer rows are multiplied in an order that is known.
constexpr std::size_t kLeastTerms = 64;

void multiply_widened(const GemmBlock& block, std::size_t first, std::size_t end) noexcept {
  const Parts parts(block.m, kMr);
  for (std::size_t run = 0; run < block.runs; ++run) {
    for (std::size_t part = 0; part < parts.count; ++part) {
      kRowsFunctions[parts.rows_of(part) - 1](block, run, parts.first_row(part), first, end);
    }
  }
}

void multiply_all_widened(const GemmBlock& block) noexcept {
  const std::size_t columns = panels_at_once(block) * kNr;
  for (std::size_t first = 0; first < block.n; first += columns) {
    multiply_widened(block, first, block.n - first < columns ? block.n : first + columns);
  }
}

#include "kernels/gemm/avx2_clipped_terms.inl.h"
#include "kernels/gemm/avx2_ordered_steps.inl.h"

// Whether a block has all segments of its panels, in their order.
bool has_all_segments(const GemmBlock& block) noexcept {
  const std::size_t segment_bytes = block.k * kNr;
  bool follow = block.b_panel_stride == block.segments * segment_bytes;
  for (std::size_t i = 0; follow && i < block.segments; ++i) follow = block.b_offsets[i] == i * segment_bytes;
  return follow;
}

void multiply(const GemmBlock& block) noexcept {
  const std::uint16_t* b_order = has_all_segments(block) ? block.b_order : nullptr;
  const bool has_few_rows = block.runs * block.m < kManyRows;
  if (has_few_rows && (b_order == nullptr || block.segments * block.k < kLeastTerms))
    return multiply_all_widened(block);
  if (block.segments != 1) return multiply_segments_in_order(block, b_order);
  StepsInSegment steps(block.a_offsets[0], block.b_offsets[0]);
  multiply_in_order(block, b_order, steps);
}

}  // namespace

constinit const GemmKernels avx2::gemm = {.mr = kMr,
                                          .nr = kNr,
                                          .least_tile = kNr / 2,
                                          .kr = kKr,
                                          .products_per_cycle = 32,
                                          .least_columns = kNr,
                                          .order_steps = order_steps,
                                          .many_rows = kManyRows,
                                          .multiply = multiply};

}  // namespace dmlcpu
