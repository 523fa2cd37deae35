// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation.
//
//            b left (6)  b right (7)
//   a top (4)    0           1            a block of 32 x 32: 4 accumulator tiles, 4 tile loads for 4 products
//   a bottom (5) 2           3
//
// A product takes 16 cycles in proportion to the rows of a, a tile load from L1 takes 8: with a in L1 and b streamed
// the loads hide behind the products. Runs are cut into equal parts of at most 16 rows, top and bottom may be parts of
// different runs, and tiles are configured to exactly the rows of the parts: at most two heights, one after the other.
//
// Accumulators leave through a buffer in L1, from where the vector unit requantizes them while the next products run.
// Tiles are released before returning, so that a context switch saves nothing.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

#if !defined(__AMX_TILE__) || !defined(__AMX_INT8__)
#error "compile with AMX-TILE and AMX-INT8"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx512_vnni.inl.h"

constexpr std::size_t kMr = 32, kNr = 32, kKr = 64;
constexpr std::size_t kTileRows = 16;

struct alignas(64) TileConfiguration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

// The tiles of a and of the accumulators have 1 to 16 rows, those of b 16.
void configure(std::size_t rows) noexcept {
  TileConfiguration tiles = {};
  tiles.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    tiles.row_bytes[tile] = 64;
    tiles.rows[tile] = static_cast<std::uint8_t>(tile < 6 ? rows : kTileRows);
  }
  // GCC's intrinsic claims to read 8 of the 64 bytes; without this the stores to the others could be dropped.
  __asm__ volatile("" : : "r"(&tiles) : "memory");
  _tile_loadconfig(&tiles);
}

// Two parts of the same panel and of the same number of rows; both the same where only one is left.
template <bool has_bottom>
void multiply_parts(const GemmBlock& block, const Tile& top, const Tile& bottom,
                    std::int32_t (&sums)[2][kTileRows][kNr]) noexcept {
  constexpr std::size_t kGroupStride = kNr * 4;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (has_bottom) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    const std::size_t offset = block.a_offsets[segment];
    const std::uint8_t* b = top.b + block.b_offsets[segment];
    for (std::size_t k = 0; k < block.k; k += kKr) {
      _tile_loadd(6, b + k * kNr, kGroupStride);
      _tile_loadd(4, top.a + offset + k, block.a_row_stride);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, b + k * kNr + 64, kGroupStride);
      _tile_dpbusd(1, 4, 7);
      if constexpr (has_bottom) {
        _tile_loadd(5, bottom.a + offset + k, block.a_row_stride);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
    }
  }
  _tile_stored(0, sums[0][0], sizeof(sums[0][0]));
  _tile_stored(1, sums[0][0] + 16, sizeof(sums[0][0]));
  if constexpr (has_bottom) {
    _tile_stored(2, sums[1][0], sizeof(sums[1][0]));
    _tile_stored(3, sums[1][0] + 16, sizeof(sums[1][0]));
  }
}

void finish(const GemmBlock& block, const Tile& tile, const std::int32_t (&sums)[kTileRows][kNr]) noexcept {
  const __m512i offset_i32x16[2] = {_mm512_loadu_si512(tile.offset), _mm512_loadu_si512(tile.offset + 16)};
  const auto sum = [&](std::size_t row, int half) {
    return _mm512_add_epi32(_mm512_load_si512(sums[row] + 16 * half), offset_i32x16[half]);
  };
  std::size_t row = 0;
  if (tile.sums != nullptr) {
    for (; row < tile.rows; ++row) {
      store_sums<0>(block, tile, row, sum(row, 0));
      store_sums<1>(block, tile, row, sum(row, 1));
    }
    return;
  }
  const Requantizer requantizer(block, tile);
  for (; row + 2 <= tile.rows; row += 2) {
    requantizer.store_pair(row, sum(row, 0), sum(row, 1), sum(row + 1, 0), sum(row + 1, 1));
  }
  if (row < tile.rows) requantizer.store_last(row, sum(row, 0), sum(row, 1));
}

// All parts of one number of rows: of each run those from first_part on, parts_of_run of them.
void multiply_height(const GemmBlock& block, const Parts& parts, std::size_t first_part,
                     std::size_t parts_of_run) noexcept {
  if (parts_of_run == 0) return;
  const std::size_t rows = parts.rows_of(first_part), count = block.runs * parts_of_run;
  alignas(64) std::int32_t sums[2][kTileRows][kNr];
  configure(rows);
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    const auto part = [&](std::size_t index) {
      const std::size_t first_row = parts.first_row(first_part + index % parts_of_run);
      return tile_of(block, kNr, panel, index / parts_of_run, first_row, rows);
    };
    std::size_t index = 0;
    for (; index + 2 <= count; index += 2) {
      const Tile top = part(index), bottom = part(index + 1);
      multiply_parts<true>(block, top, bottom, sums);
      finish(block, top, sums[0]);
      finish(block, bottom, sums[1]);
    }
    if (index < count) {
      const Tile last = part(index);
      multiply_parts<false>(block, last, last, sums);
      finish(block, last, sums[0]);
    }
  }
}

void multiply(const GemmBlock& block) noexcept {
  const Parts parts(block.m, kTileRows);
  multiply_height(block, parts, 0, parts.longer);
  multiply_height(block, parts, parts.longer, parts.count - parts.longer);
  _tile_release();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1024, .multiply = multiply};

}  // namespace dmlcpu
