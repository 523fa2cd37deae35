// The product of gemm.h for AVX512-VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds them to a
// 32-bit lane without saturation.
//
// Tile of up to 14 x 32: 28 accumulators, which begin as the offsets, 2 vectors of b, 1 broadcast of a: 31 of 32
// registers, and 16 loads for 28 products, so bound by vpdpbusd and not by loads. Where no more than 16 columns are
// left it is up to 28 x 16, and loads bind. Tiles have any number of rows, since runs are as long as rows of images
// are.
#include <immintrin.h>

#include <array>
#include <utility>

#include "kernels/gemm/gemm.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx512_vnni.inl.h"

constexpr std::size_t kMr = 14, kNr = 32, kKr = 4;
static_assert(kMostPanelColumns % kNr == 0);

// A panel of b is mostly in the level-2 cache, or behind it: it is fetched as many steps of k ahead as take 896
// vpdpbusd, at most 64, which are 8 KiB, a quarter of the smallest level-1 cache. Rows of a that are long are fetched,
// too, a cache line ahead: as many streams as rows are more than the hardware follows. A hint reads nothing, so it may
// point behind an operand.
constexpr std::size_t prefetched_bytes(std::size_t vectors_of_sums) noexcept {
  const std::size_t steps = 896 / vectors_of_sums;
  return (steps < 64 ? steps : 64) * 4 * kNr;
}
constexpr std::size_t kLongRow = 1024;

// Where all panels stay in the level-1 cache, those of a few rows follow each other: the lines of an output are written
// at once, and rows are read once.
constexpr std::size_t kSmallFilter = 20 << 10;

// Columns before those that are a vector at most.
std::size_t wide_columns(std::size_t n) noexcept {
  const std::size_t last = n / kNr * kNr;
  return n - last > 16 ? n : last;
}

// The lines of the next block's rows come to the level-2 cache while this one is multiplied, a few bytes in each step
// of k: nothing in the order of the loads tells the hardware so early.
struct Ahead {
  const std::uint8_t* rows;
  std::size_t step_bytes;
};

Ahead ahead_of(const GemmBlock& block) noexcept {
  const std::size_t wide = wide_columns(block.n);
  const std::size_t tiles = (block.m + kMr - 1) / kMr * ((wide + kNr - 1) / kNr) +
                            (wide == block.n ? 0 : (block.m + 2 * kMr - 1) / (2 * kMr));
  const std::size_t steps = tiles * block.runs * block.segments * (block.k / 4);
  if (block.next_rows == 0 || steps == 0) return {block.a, 0};
  return {block.a + block.runs * block.m * block.a_row_stride, block.next_rows * block.a_row_stride / steps};
}

template <std::size_t rows, std::size_t vectors>
inline __attribute__((always_inline)) void store_tile_sums(const GemmBlock& block, const Tile& tile,
                                                           const __m512i (&sums_i32x16)[rows][vectors]) noexcept {
#pragma GCC unroll 28
  for (std::size_t row = 0; row < rows; ++row) {
    std::int32_t* sums = tile.sums + row * block.output_row_stride;
    store_sums<0>(block, tile.columns, sums, sums_i32x16[row][0]);
    if constexpr (vectors == 2) store_sums<1>(block, tile.columns, sums, sums_i32x16[row][1]);
  }
}

template <bool within_range, std::size_t rows, std::size_t vectors>
inline __attribute__((always_inline)) void requantize_tile(const GemmBlock& block, const Tile& tile,
                                                           const __m512i (&sums_i32x16)[rows][vectors]) noexcept {
  std::uint8_t* const codes = tile.output;
  const std::size_t stride = block.output_row_stride;  // here, lest every store of a byte might change it
  const Requantizer requantizer(block, tile);
  const auto output = [&](std::size_t row) __attribute__((always_inline)) { return codes + row * stride; };
  if constexpr (vectors == 1) {
    const auto sum = [&](std::size_t row) { return sums_i32x16[row < rows ? row : rows - 1][0]; };
#pragma GCC unroll 7
    for (std::size_t row = 0; row < rows; row += 4) {
      const auto output_of = [&](std::size_t i) __attribute__((always_inline)) { return output(row + i); };
      requantizer.store_narrow<within_range>(rows - row, output_of, sum(row), sum(row + 1), sum(row + 2), sum(row + 3));
    }
  } else {
#pragma GCC unroll 7
    for (std::size_t row = 0; row + 2 <= rows; row += 2) {
      requantizer.store_pair<within_range>(output(row), output(row + 1), sums_i32x16[row][0], sums_i32x16[row][1],
                                           sums_i32x16[row + 1][0], sums_i32x16[row + 1][1]);
    }
    if constexpr (rows % 2 != 0) {
      requantizer.store_single<within_range>(output(rows - 1), sums_i32x16[rows - 1][0], sums_i32x16[rows - 1][1]);
    }
  }
}

// A tile of up to 16 columns is one vector wide. Its rows are those of one run, or half of them those of the next.
template <std::size_t rows, std::size_t vectors, std::size_t runs = 1>
void multiply_tile(const GemmBlock& block, const Tile& tile, const Ahead& ahead) noexcept {
  constexpr std::size_t of_run = rows / runs, kAhead = prefetched_bytes(rows * vectors);
  const auto place = [&](std::size_t row) __attribute__((always_inline)) {
    return row / of_run * block.a_run_stride + row % of_run * block.a_row_stride;
  };
  ZeroPointTerms<rows> zero_point_terms(tile);
  __m512i acc_i32x16[rows][vectors];
#pragma GCC unroll 28
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t v = 0; v < vectors; ++v) acc_i32x16[row][v] = _mm512_loadu_si512(tile.offset + 16 * v);
  }
  const std::uint8_t* next_rows = ahead.rows;
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    const std::uint8_t* a = tile.a + block.a_offsets[segment];
    const std::uint8_t* b = tile.b + block.b_offsets[segment];
    const auto multiply_until = [&](const std::uint8_t* end) __attribute__((always_inline)) {
      for (; b != end; b += 4 * kNr, a += 4) {
        _mm_prefetch(next_rows, _MM_HINT_T1);
        next_rows += ahead.step_bytes;
        __m512i b_x64[vectors];
        for (std::size_t v = 0; v < vectors; ++v) {
          _mm_prefetch(b + kAhead + 64 * v, _MM_HINT_T0);
          b_x64[v] = _mm512_load_si512(b + 64 * v);
        }
#pragma GCC unroll 28
        for (std::size_t row = 0; row < rows; ++row) {
          int group;
          __builtin_memcpy(&group, a + place(row), sizeof(group));
          const __m512i a_x64 = _mm512_set1_epi32(group);
          for (std::size_t v = 0; v < vectors; ++v) {
            acc_i32x16[row][v] = _mm512_dpbusd_epi32(acc_i32x16[row][v], a_x64, b_x64[v]);
          }
        }
      }
    };
    const std::uint8_t* end = b + block.k * kNr;
    if (block.k >= kLongRow) {
      while (b + 64 * kNr < end) {
#pragma GCC unroll 28
        for (std::size_t row = 0; row < rows; ++row) _mm_prefetch(a + place(row) + 64, _MM_HINT_T0);
        multiply_until(b + 64 * kNr);
      }
    }
    multiply_until(end);
  }
  if (!zero_point_terms.empty()) {
    zero_point_terms.template subtract<vectors>([&](const auto& subtracted) __attribute__((always_inline)) {
#pragma GCC unroll 28
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t v = 0; v < vectors; ++v) acc_i32x16[row][v] = subtracted(row, v, acc_i32x16[row][v]);
      }
    });
  }
  if (tile.sums != nullptr) return store_tile_sums(block, tile, acc_i32x16);
  if (converts_within_range(tile)) return requantize_tile<true>(block, tile, acc_i32x16);
  requantize_tile<false>(block, tile, acc_i32x16);
}

using TileFunction = void (*)(const GemmBlock& block, const Tile& tile, const Ahead& ahead) noexcept;

// By the rows of a tile.
template <std::size_t vectors, std::size_t... rows>
constexpr std::array<TileFunction, sizeof...(rows)> tile_functions(std::index_sequence<rows...>) noexcept {
  return {multiply_tile<rows + 1, vectors>...};
}
template <std::size_t vectors>
constexpr std::array kTileFunctions = tile_functions<vectors>(std::make_index_sequence<2 * kMr / vectors>());

// By the rows of a run.
template <std::size_t vectors>
constexpr TileFunction kPairFunctions[kMr / 2] = {multiply_tile<2, vectors, 2>,  multiply_tile<4, vectors, 2>,
                                                  multiply_tile<6, vectors, 2>,  multiply_tile<8, vectors, 2>,
                                                  multiply_tile<10, vectors, 2>, multiply_tile<12, vectors, 2>,
                                                  multiply_tile<14, vectors, 2>};

// Two short runs, as the rows of a small image are, share the loads of b, if their results follow each other as well.
bool takes_pairs(const GemmBlock& block) noexcept {
  return block.runs > 1 && block.m != 0 && block.m <= kMr / 2 &&
         block.output_run_stride == block.m * block.output_row_stride;
}

void multiply_pairs(const GemmBlock& block) noexcept {
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    for (std::size_t run = 0; run < block.runs; run += 2) {
      const std::size_t runs = block.runs - run < 2 ? 1 : 2;
      const Tile tile = tile_of(block, kNr, panel, run, 0, runs * block.m);
      const bool is_wide = tile.columns > 16;
      const TileFunction pair = (is_wide ? kPairFunctions<2> : kPairFunctions<1>)[block.m - 1];
      const TileFunction last = is_wide ? kTileFunctions<2>[block.m - 1] : kTileFunctions<1>[block.m - 1];
      (runs == 2 ? pair : last)(block, tile, {block.a, 0});
    }
  }
}

void multiply(const GemmBlock& block) noexcept {
  if (takes_pairs(block)) return multiply_pairs(block);
  Ahead ahead = ahead_of(block);
  const auto multiply_tiles = [&](const auto& functions, std::size_t first, std::size_t end) {
    const auto multiply_tile = [&](const Tile& tile) noexcept {
      functions[tile.rows - 1](block, tile, ahead);
      ahead.rows += ahead.step_bytes * block.segments * (block.k / 4);
    };
    if ((end - first) * block.segments * block.k <= kSmallFilter) {
      for_each_tile_by_rows(block, functions.size(), kNr, first, end, multiply_tile);
    } else {
      for_each_tile(block, functions.size(), kNr, first, end, multiply_tile);
    }
  };
  const std::size_t wide = wide_columns(block.n);
  multiply_tiles(kTileFunctions<2>, 0, wide);
  multiply_tiles(kTileFunctions<1>, wide, block.n);
}

}  // namespace

constinit const GemmKernels avx512_vnni::gemm = {.mr = kMr,
                                                 .nr = kNr,
                                                 .kr = kKr,
                                                 .products_per_cycle = 128,
                                                 .cycles_of_rows = 100,
                                                 .cycles_of_area = 180,
                                                 .least_columns = kNr,
                                                 .multiply = multiply};

}  // namespace dmlcpu
