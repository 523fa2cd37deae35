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
// Filters of few bits are quicker: where neighbours in k are small enough together, vpmaddubsw does not saturate
// (PanelFit).
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
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) begin_sums(block.offset + panel, sum_i32x8[i]);
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
    store_rows(block, tile(panel), sum_i32x8);
  }
}

using RowsFunction = void (*)(const GemmBlock& block, std::size_t run, std::size_t first_row, std::size_t first,
                              std::size_t end) noexcept;
constexpr RowsFunction kRowsFunctions[kMr] = {multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                              multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};

// How vpmaddubsw, which adds two products in 16 bits, is exact for a panel of b: where neither the positive nor the
// negative codes of neighbours in k add up to more than 128, the sum of their products with 0..255 is within 255 * 128.
// Of eight k whose pairs fit even two by two, those sums are added in 16 bits before they are widened.
class PanelFit {
 public:
  // Returns false where a pair does not fit.
  bool look_at(const GemmBlock& block, const std::uint8_t* panel) noexcept {
    words_of_segment_ = (block.k / 8 + kWordBits - 1) / kWordBits;
    const bool marks = block.segments * words_of_segment_ <= kMostWords;
    std::size_t quads = 0;
    for (std::size_t segment = 0; segment < block.segments; ++segment) {
      const std::uint8_t* b = panel + block.b_offsets[segment];
      for (std::size_t word = 0, step = 0; word < words_of_segment_; ++word) {
        __m256i exceeding = _mm256_setzero_si256();
        std::uint64_t bits = 0;
        for (std::size_t bit = 0; bit < kWordBits && step < block.k / 8; ++bit, ++step, b += 8 * kNr) {
          bits |= std::uint64_t{look_at_8(b, exceeding)} << bit;
        }
        if (_mm256_testz_si256(exceeding, exceeding) == 0) return false;
        if (marks) quads_[segment * words_of_segment_ + word] = bits;
        quads += static_cast<std::size_t>(_mm_popcnt_u64(bits));
      }
      if (block.k % 8 != 0 && !(PairSums(b).fit() && PairSums(b + 32).fit())) return false;
    }
    has_quads_ = marks && quads * 8 > block.segments * (block.k / 8);
    return true;
  }

  // Whether more than an eighth of the eight k do.
  bool has_quads() const noexcept { return has_quads_; }
  bool is_quad(std::size_t segment, std::size_t step) const noexcept {
    return (quads_[segment * words_of_segment_ + step / kWordBits] >> step % kWordBits & 1) != 0;
  }

 private:
  static constexpr std::size_t kMostWords = 64, kWordBits = 64;

  // Of the pairs in four k of 8 columns, the sums of their positive and of their negative codes.
  struct PairSums {
    __m256i positive_i16x16, negative_i16x16;

    explicit PairSums(const std::uint8_t* b) noexcept {
      const __m256i ones_u8x32 = _mm256_set1_epi8(1), b_i8x32 = load_codes(b);
      positive_i16x16 = _mm256_maddubs_epi16(ones_u8x32, _mm256_max_epi8(b_i8x32, _mm256_setzero_si256()));
      negative_i16x16 = _mm256_sub_epi16(positive_i16x16, _mm256_maddubs_epi16(ones_u8x32, b_i8x32));
    }
    void add(const PairSums& other) noexcept {
      positive_i16x16 = _mm256_add_epi16(positive_i16x16, other.positive_i16x16);
      negative_i16x16 = _mm256_add_epi16(negative_i16x16, other.negative_i16x16);
    }
    __m256i exceeding() const noexcept {
      return _mm256_cmpgt_epi16(_mm256_max_epi16(positive_i16x16, negative_i16x16), _mm256_set1_epi16(128));
    }
    bool fit() const noexcept { return _mm256_testz_si256(exceeding(), exceeding()) != 0; }
  };

  // Whether eight k of 16 columns fit two by two; adds the pairs that do not fit.
  static bool look_at_8(const std::uint8_t* b, __m256i& exceeding) noexcept {
    __m256i quads_exceeding = _mm256_setzero_si256();
    for (std::size_t half = 0; half < 2; ++half, b += 32) {
      PairSums first(b);
      const PairSums second(b + 4 * kNr);
      exceeding = _mm256_or_si256(exceeding, _mm256_or_si256(first.exceeding(), second.exceeding()));
      first.add(second);
      quads_exceeding = _mm256_or_si256(quads_exceeding, first.exceeding());
    }
    return _mm256_testz_si256(quads_exceeding, quads_exceeding) != 0;
  }

  std::uint64_t quads_[kMostWords];  // a bit for each eight k; those of a segment begin with a word
  std::size_t words_of_segment_;
  bool has_quads_;
};

// A tile of a panel whose pairs fit, or half of it: three operations for 32 products, five for 64 of quads, and nothing
// to widen.
template <std::size_t rows, std::size_t halves, bool has_quads>
void multiply_fitting(const GemmBlock& block, const Tile& tile, const PanelFit& fit) noexcept {
  __m256i acc_i32x8[rows][halves];
  begin_sums(tile.offset, acc_i32x8);
  const __m256i ones_i16x16 = _mm256_set1_epi16(1);
  const std::uint8_t *a = nullptr, *b = nullptr;
  const auto add_4 = [&]() __attribute__((always_inline)) {
    for (std::size_t row = 0; row < rows; ++row) {
      const __m256i a_x32 = broadcast(a + row * block.a_row_stride);
      for (std::size_t half = 0; half < halves; ++half) {
        const __m256i pairs_i16x16 = _mm256_maddubs_epi16(a_x32, load_codes(b + 32 * half));
        acc_i32x8[row][half] = _mm256_add_epi32(acc_i32x8[row][half], _mm256_madd_epi16(pairs_i16x16, ones_i16x16));
      }
    }
    a += 4;
    b += 4 * kNr;
  };
  const auto add_8 = [&]() __attribute__((always_inline)) {
    // Keeps the compiler from making what four and eight k have in common first, which takes the accumulators'
    // registers.
    __asm__("" : "+r"(a), "+r"(b));
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t* of_row = a + row * block.a_row_stride;
      const __m256i a0_x32 = broadcast(of_row), a1_x32 = broadcast(of_row + 4);
      for (std::size_t half = 0; half < halves; ++half) {
        const __m256i quads_i16x16 =
            _mm256_add_epi16(_mm256_maddubs_epi16(a0_x32, load_codes(b + 32 * half)),
                             _mm256_maddubs_epi16(a1_x32, load_codes(b + 4 * kNr + 32 * half)));
        acc_i32x8[row][half] = _mm256_add_epi32(acc_i32x8[row][half], _mm256_madd_epi16(quads_i16x16, ones_i16x16));
      }
    }
    a += 8;
    b += 8 * kNr;
  };
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    a = tile.a + block.a_offsets[segment];
    b = tile.b + block.b_offsets[segment];
    const std::uint8_t* end = b + block.k * kNr;
    for (std::size_t step = 0; has_quads && step < block.k / 8; ++step) {
      if (fit.is_quad(segment, step)) {
        add_8();
      } else {
        add_4();
        add_4();
      }
    }
    while (b != end) add_4();
  }
  store_rows(block, tile, acc_i32x8);
}

using TileFunction = void (*)(const GemmBlock& block, const Tile& tile, const PanelFit& fit) noexcept;
// Rows of a tile: of half a panel twice as many.
template <std::size_t halves>
constexpr std::size_t kMostRows = halves == 2 ? kMr : 2 * kMr;

template <std::size_t halves>
struct FittingFunctions {
  TileFunction of[2][kMostRows<halves>];  // by whether there are quads, and rows
};
template <std::size_t halves, std::size_t... index>
constexpr FittingFunctions<halves> fitting_functions(std::index_sequence<index...>) noexcept {
  return {{{multiply_fitting<index + 1, halves, false>...}, {multiply_fitting<index + 1, halves, true>...}}};
}
template <std::size_t halves>
constexpr FittingFunctions<halves> kFittingFunctions =
    fitting_functions<halves>(std::make_index_sequence<kMostRows<halves>>());

// All rows by the panel at a column.
template <std::size_t halves>
inline void multiply_fitting_panel(const GemmBlock& block, std::size_t panel, const PanelFit& fit) noexcept {
  const TileFunction* functions = kFittingFunctions<halves>.of[fit.has_quads() ? 1 : 0];
  for_each_tile(block, kMostRows<halves>, kNr, panel, panel + 1,
                [&](const Tile& tile) noexcept { functions[tile.rows - 1](block, tile, fit); });
}

// Rows that a look at all of b is worth: it costs about as much as three of them.
constexpr std::size_t kManyRows = 24;

// Returns whether all panels from `first` to before `end` fit, and were multiplied by it.
bool multiply_fitting_panels(const GemmBlock& block, std::size_t first, std::size_t end) noexcept {
  PanelFit fits[kMostPanels];
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) {
    if (!fits[i].look_at(block, block.b + panel / kNr * block.b_panel_stride)) return false;
  }
  for (std::size_t panel = first, i = 0; panel < end; panel += kNr, ++i) {
    block.n - panel > 8 ? multiply_fitting_panel<2>(block, panel, fits[i])
                        : multiply_fitting_panel<1>(block, panel, fits[i]);
  }
  return true;
}

void multiply(const GemmBlock& block) noexcept {
  const Parts parts(block.m, kMr);
  const std::size_t columns = panels_at_once(block) * kNr;
  for (std::size_t first = 0; first < block.n; first += columns) {
    const std::size_t end = block.n - first < columns ? block.n : first + columns;
    if (block.runs * block.m >= kManyRows && multiply_fitting_panels(block, first, end)) continue;
    for (std::size_t run = 0; run < block.runs; ++run) {
      for (std::size_t part = 0; part < parts.count; ++part) {
        kRowsFunctions[parts.rows_of(part) - 1](block, run, parts.first_row(part), first, end);
      }
    }
  }
}

}  // namespace

constinit const GemmKernels avx2::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 32, .least_columns = kNr, .multiply = multiply};

}  // namespace dmlcpu
