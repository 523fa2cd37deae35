// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and add to a tile of 16 x 16 accumulators, without saturation.
//
//            b left (6)  b right (7)
//   a top (4)    0           1            a block of 32 x 32: 4 accumulator tiles, 4 tile loads for 4 products
//   a bottom (5) 2           3
//
// A product takes 16 cycles in proportion to the rows of a, a tile load from L1 takes 8: with a in L1 and b streamed
// the loads hide behind the products. The last rows run with tiles of exactly their height, configured once for the
// call. Tiles are released before returning, so that a context switch saves nothing.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

#if !defined(__AMX_TILE__) || !defined(__AMX_INT8__)
#error "compile with AMX-TILE and AMX-INT8"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kMr = 32, kNr = 32, kKr = 64;
constexpr std::size_t kTileRows = 16;

struct alignas(64) TileConfiguration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

// Tiles of a block with top (1..16) and bottom (0..16) rows. A tile that is not used keeps one row: 0 would fault.
void configure(std::size_t top, std::size_t bottom) {
  TileConfiguration tiles = {};
  tiles.palette = 1;
  const std::uint8_t heights[8] = {static_cast<std::uint8_t>(top),
                                   static_cast<std::uint8_t>(top),
                                   static_cast<std::uint8_t>(bottom),
                                   static_cast<std::uint8_t>(bottom),
                                   static_cast<std::uint8_t>(top),
                                   static_cast<std::uint8_t>(bottom),
                                   kTileRows,
                                   kTileRows};
  for (int tile = 0; tile < 8; ++tile) {
    tiles.row_bytes[tile] = 64;
    tiles.rows[tile] = heights[tile] == 0 ? 1 : heights[tile];
  }
  // GCC's intrinsic claims to read 8 of the 64 bytes; without this the stores to the others could be dropped.
  __asm__ volatile("" : : "r"(&tiles) : "memory");
  _tile_loadconfig(&tiles);
}

template <bool has_bottom>
void multiply_tile(const GemmBlock& block, const std::uint8_t* a, const std::uint8_t* b, std::int32_t* c) {
  const std::size_t bottom = kTileRows * block.a_row_stride;
  constexpr std::size_t kGroupStride = kNr * 4;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (has_bottom) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::size_t segment = 0; segment < block.segments; ++segment, b += block.k * kNr) {
    const std::uint8_t* a_segment = a + block.a_offsets[segment];
    for (std::size_t k = 0; k < block.k; k += kKr) {
      _tile_loadd(6, b + k * kNr, kGroupStride);
      _tile_loadd(4, a_segment + k, block.a_row_stride);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, b + k * kNr + 64, kGroupStride);
      _tile_dpbusd(1, 4, 7);
      if constexpr (has_bottom) {
        _tile_loadd(5, a_segment + bottom + k, block.a_row_stride);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
    }
  }
  const std::size_t stride_bytes = block.c_row_stride * sizeof(std::int32_t);
  _tile_stored(0, c, stride_bytes);
  _tile_stored(1, c + kTileRows, stride_bytes);
  if constexpr (has_bottom) {
    _tile_stored(2, c + kTileRows * block.c_row_stride, stride_bytes);
    _tile_stored(3, c + kTileRows * block.c_row_stride + kTileRows, stride_bytes);
  }
}

template <bool has_bottom>
void multiply_rows(const GemmBlock& block, std::size_t begin, std::size_t end) {
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    for (std::size_t row = begin; row < end; row += kMr) {
      multiply_tile<has_bottom>(block, block.a + row * block.a_row_stride, block.b + block.segments * block.k * panel,
                                block.c + row * block.c_row_stride + panel);
    }
  }
}

void multiply(const GemmBlock& block) noexcept {
  const std::size_t whole = block.m / kMr * kMr;
  const std::size_t rest = block.m - whole;
  if (whole != 0) {
    configure(kTileRows, kTileRows);
    multiply_rows<true>(block, 0, whole);
  }
  if (rest > kTileRows) {
    configure(kTileRows, rest - kTileRows);
    multiply_rows<true>(block, whole, block.m);
  } else if (rest != 0) {
    configure(rest, 0);
    multiply_rows<false>(block, whole, block.m);
  }
  _tile_release();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1024, .multiply = multiply};

}  // namespace dmlcpu
