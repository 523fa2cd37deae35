// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation.
//
//            b left (6)  b right (7)
//   a top (4)    0           1            a block of 32 x 32: 4 accumulator tiles, 4 tile loads for 4 products
//   a bottom (5) 2           3
//
// A product takes 16 cycles in proportion to the rows of a, a tile load from L1 takes 8: with one operand in L1 and the
// other streamed from L2 the loads hide behind the products. A panel of b serves all rows; where it and the rows of a
// block do not fit L1 together, a is loaded with the hint that its lines are not needed again soon, so that they do not
// push out the panel's. Runs are cut into equal parts of at most 16 rows, top and bottom may be parts of different
// runs, and tiles are configured to exactly the rows of the parts: at most two heights, one after the other. A panel of
// up to 16 columns has no right tiles.
//
// Accumulators leave through one of two buffers in L1; the vector unit requantizes them a few rows a step of k while
// the next block's products run, which the tile unit does by itself. Tiles are released before returning, so that a
// context switch saves nothing.
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

using Sums = std::int32_t[2][kTileRows][kNr];  // of the top and the bottom part

// The parts whose sums stand in a buffer and wait to become codes, which they do a pair of rows at a time.
class Unfinished {
 public:
  explicit Unfinished(const GemmBlock& block) noexcept : block_(block) {}

  void begin(const Tile& top, const Tile* bottom, const Sums& sums) noexcept {
    tiles_[0] = top;
    if (bottom != nullptr) tiles_[1] = *bottom;
    parts_ = bottom != nullptr ? 2 : 1;
    part_ = row_ = 0;
    sums_ = &sums;
  }

  // The next pairs of rows, as many as are left.
  void finish(std::size_t pairs) noexcept {
    while (pairs != 0 && part_ != parts_) {
      const std::size_t left = (tiles_[part_].rows - row_ + 1) / 2, now = pairs < left ? pairs : left;
      finish_rows(tiles_[part_], (*sums_)[part_], row_, now);
      pairs -= now;
      row_ += 2 * now;
      if (now == left) {
        ++part_;
        row_ = 0;
      }
    }
  }

 private:
  void finish_rows(const Tile& tile, const std::int32_t (&sums)[kTileRows][kNr], std::size_t row,
                   std::size_t pairs) const noexcept {
    // What stands in for a second vector that a narrow panel has not is masked out.
    const int right = tile.columns > 16 ? 1 : 0;
    const __m512i offset_i32x16[2] = {_mm512_loadu_si512(tile.offset), _mm512_loadu_si512(tile.offset + 16)};
    const auto sum = [&](std::size_t at, int half) {
      return _mm512_add_epi32(_mm512_load_si512(sums[at] + 16 * half), offset_i32x16[half]);
    };
    const std::size_t end = row + 2 * pairs < tile.rows ? row + 2 * pairs : tile.rows;
    if (tile.sums != nullptr) {
      for (; row < end; ++row) {
        store_sums<0>(block_, tile, row, sum(row, 0));
        store_sums<1>(block_, tile, row, sum(row, right));
      }
      return;
    }
    const Requantizer<false> requantizer(block_, tile);
    for (; row + 2 <= end; row += 2) {
      requantizer.store_pair(row, sum(row, 0), sum(row, right), sum(row + 1, 0), sum(row + 1, right));
    }
    if (row < end) requantizer.store_last(row, sum(row, 0), sum(row, right));
  }

  const GemmBlock& block_;
  Tile tiles_[2] = {};
  std::size_t parts_ = 0, part_ = 0, row_ = 0;
  const Sums* sums_ = nullptr;
};

// Two parts of the same panel and of the same number of rows; both the same where only one is left. In each step of k
// the sums before these get some rows further.
template <bool has_bottom, bool has_right, bool streams>
void multiply_parts(const GemmBlock& block, const Tile& top, const Tile& bottom, Unfinished& before,
                    Sums& sums) noexcept {
  constexpr std::size_t kGroupStride = kNr * 4, kPairs = 2 * kTileRows / 2;
  const std::size_t steps = block.segments * (block.k / kKr);
  const std::size_t pairs_of_step = steps == 0 ? 0 : (kPairs + steps - 1) / steps;
  _tile_zero(0);
  if constexpr (has_right) _tile_zero(1);
  if constexpr (has_bottom) _tile_zero(2);
  if constexpr (has_bottom && has_right) _tile_zero(3);
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    const std::size_t offset = block.a_offsets[segment];
    const std::uint8_t* b = top.b + block.b_offsets[segment];
    for (std::size_t k = 0; k < block.k; k += kKr) {
      _tile_loadd(6, b + k * kNr, kGroupStride);
      if constexpr (streams) {
        _tile_stream_loadd(4, top.a + offset + k, block.a_row_stride);
      } else {
        _tile_loadd(4, top.a + offset + k, block.a_row_stride);
      }
      _tile_dpbusd(0, 4, 6);
      if constexpr (has_right) {
        _tile_loadd(7, b + k * kNr + 64, kGroupStride);
        _tile_dpbusd(1, 4, 7);
      }
      if constexpr (has_bottom) {
        if constexpr (streams) {
          _tile_stream_loadd(5, bottom.a + offset + k, block.a_row_stride);
        } else {
          _tile_loadd(5, bottom.a + offset + k, block.a_row_stride);
        }
        _tile_dpbusd(2, 5, 6);
        if constexpr (has_right) _tile_dpbusd(3, 5, 7);
      }
      before.finish(pairs_of_step);
    }
  }
  before.finish(kPairs);
  _tile_stored(0, sums[0][0], sizeof(sums[0][0]));
  if constexpr (has_right) _tile_stored(1, sums[0][0] + 16, sizeof(sums[0][0]));
  if constexpr (has_bottom) _tile_stored(2, sums[1][0], sizeof(sums[1][0]));
  if constexpr (has_bottom && has_right) _tile_stored(3, sums[1][0] + 16, sizeof(sums[1][0]));
}

using PartsFunction = void (*)(const GemmBlock& block, const Tile& top, const Tile& bottom, Unfinished& before,
                               Sums& sums) noexcept;

// By has_bottom, has_right, streams.
constexpr PartsFunction kPartsFunctions[2][2][2] = {
    {{multiply_parts<false, false, false>, multiply_parts<false, false, true>},
     {multiply_parts<false, true, false>, multiply_parts<false, true, true>}},
    {{multiply_parts<true, false, false>, multiply_parts<true, false, true>},
     {multiply_parts<true, true, false>, multiply_parts<true, true, true>}}};

// What a panel of b and the rows of a block may take of the 48 KiB of L1, beside the buffers of sums.
constexpr std::size_t kLevel1Bytes = 40960;

// All parts of one number of rows: of each run those from first_part on, parts_of_run of them.
void multiply_height(const GemmBlock& block, const Parts& parts, std::size_t first_part,
                     std::size_t parts_of_run) noexcept {
  if (parts_of_run == 0) return;
  const std::size_t rows = parts.rows_of(first_part), count = block.runs * parts_of_run;
  const bool streams = block.segments * block.k * (kNr + kMr) > kLevel1Bytes;
  alignas(64) Sums sums[2];
  Unfinished before(block);
  std::size_t buffer = 0;
  configure(rows);
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    const auto part = [&](std::size_t index) {
      const std::size_t first_row = parts.first_row(first_part + index % parts_of_run);
      return tile_of(block, kNr, panel, index / parts_of_run, first_row, rows);
    };
    for (std::size_t index = 0; index < count; index += 2, buffer ^= 1) {
      const bool has_bottom = index + 1 < count;
      const Tile top = part(index), bottom = part(has_bottom ? index + 1 : index);
      kPartsFunctions[has_bottom][top.columns > 16][streams](block, top, bottom, before, sums[buffer]);
      before.begin(top, has_bottom ? &bottom : nullptr, sums[buffer]);
    }
  }
  before.finish(2 * kTileRows);
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
