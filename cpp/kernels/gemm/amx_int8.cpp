// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation.
//
// Of a's rows, a tile takes a part: parts are equal, of at most 16 rows, so that tiles are configured once. A product
// takes 16 cycles in proportion to the rows of a, and about 36 more until the next may add to its accumulators: so four
// accumulators take turns, two parts by two tiles of columns or four parts by one.
//
//            b 0 (6)  b 1 (7)                            b (6)
//   a 0 (4)    0        1                        a 0 (4)   0
//   a 1 (5)    2        3                        a 1 (5)   1        the other half of 32 columns follows
//                                                a 2 (4)   2
//   4 loads for 4 products                       a 3 (5)   3        5 loads for 4 products, but half as many of b
//
// A load takes 8 cycles from L1; from L2 about 32 bytes a cycle arrive, which is one tile in two products. So one of
// the operands has to stay in L1 while the other passes through: order_of() says which.
//
// Accumulators begin as the offsets and leave through one of two buffers in L1; the vector unit requantizes them some
// rows a step of k while the next products run, which the tile unit does by itself. Tiles are released before
// returning, so that a context switch saves nothing.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

// Older Clangs spell them without the second underscore.
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) || !(defined(__AMX_INT8__) || defined(__AMXINT8__))
#error "compile with AMX-TILE and AMX-INT8"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx512_vnni.inl.h"

constexpr std::size_t kMr = 16, kNr = 16, kKr = 64;
constexpr std::size_t kTileRows = kMr, kMostParts = 4, kColumns = 2 * kNr;

#include "kernels/gemm/amx_order.inl.h"

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

// The codes of some parts by a panel or two of b: neighbouring parts, of which the products are made at a time.
struct Area {
  Part parts[kMostParts];
  std::size_t count;
  std::size_t panel, columns;
};

using Sums = std::int32_t[kMostParts][kTileRows][kColumns];

// An area whose sums stand in a buffer and wait to become codes, which they do some rows at a time.
class Unfinished {
 public:
  Unfinished(const GemmBlock& block, const Cut& cut) noexcept : block_(block), cut_(cut) {}

  void begin(const Area& area, Sums& sums) noexcept {
    area_ = area;
    sums_ = &sums;
    part_ = 0;
    done_ = area.parts[0].done;
    within_range_ = block_.sums == nullptr && converts_within_range(tile(0, 0, 0));
  }

  // The next rows, as many as are left.
  void finish(std::size_t rows) noexcept {
    while (rows != 0 && part_ != area_.count) {
      const Cut::Stretch stretch = cut_.stretch(area_.parts[part_], done_, rows);
      if (stretch.rows != 0) finish_rows(tile(stretch.run, stretch.row, stretch.rows), (*sums_)[part_] + done_);
      rows -= stretch.rows;
      done_ = stretch.done;
      if (done_ >= cut_.rows() && ++part_ != area_.count) done_ = area_.parts[part_].done;
    }
  }

 private:
  Tile tile(std::size_t run, std::size_t row, std::size_t rows) const noexcept {
    Tile result = tile_of(block_, kNr, area_.panel, run, row, rows);
    result.columns = area_.columns;
    return result;
  }

  void finish_rows(const Tile& tile, std::int32_t (*sums)[kColumns]) const noexcept {
    if (tile.filter_zero_point != nullptr) {
      tile.columns > kNr ? subtract_in_place<2>(tile, sums) : subtract_in_place<1>(tile, sums);
    }
    if (tile.sums != nullptr) {
      for (std::size_t row = 0; row < tile.rows; ++row) {
        store_sums<0>(block_, tile, row, _mm512_load_si512(sums[row]));
        if (tile.columns > kNr) store_sums<1>(block_, tile, row, _mm512_load_si512(sums[row] + kNr));
      }
    } else if (within_range_) {
      requantize(Requantizer<true>(block_, tile), tile, sums);
    } else {
      requantize(Requantizer<false>(block_, tile), tile, sums);
    }
  }

  template <std::size_t panels>
  static void subtract_in_place(const Tile& tile, std::int32_t (*sums)[kColumns]) noexcept {
    ZeroPointTerms<kTileRows>(tile).template subtract<panels>(
        [&](const auto& subtracted) __attribute__((always_inline)) {
          for (std::size_t row = 0; row < tile.rows; ++row) {
            for (std::size_t panel = 0; panel < panels; ++panel) {
              std::int32_t* of_panel = sums[row] + kNr * panel;
              _mm512_store_si512(of_panel, subtracted(row, panel, _mm512_load_si512(of_panel)));
            }
          }
        });
  }

  template <class Requantizer>
  static void requantize(const Requantizer& requantizer, const Tile& tile,
                         const std::int32_t (*sums)[kColumns]) noexcept {
    const auto sum = [&](std::size_t row, std::size_t column) {
      return _mm512_load_si512(sums[row < tile.rows ? row : tile.rows - 1] + column);
    };
    std::size_t row = 0;
    if (tile.columns <= kNr) {
      for (; row < tile.rows; row += 4) {
        requantizer.store_narrow(row, tile.rows - row, sum(row, 0), sum(row + 1, 0), sum(row + 2, 0), sum(row + 3, 0));
      }
      return;
    }
    for (; row + 2 <= tile.rows; row += 2) {
      requantizer.store_pair(row, sum(row, 0), sum(row, kNr), sum(row + 1, 0), sum(row + 1, kNr));
    }
    if (row < tile.rows) requantizer.store_last(row, sum(row, 0), sum(row, kNr));
  }

  const GemmBlock& block_;
  const Cut& cut_;
  Area area_ = {};
  std::size_t part_ = 0, done_ = 0;
  bool within_range_ = false;
  Sums* sums_ = nullptr;
};

// How many rows of the area before become codes in a step of k, and how many after the last.
constexpr std::size_t kRowsAtOnce = 2;
struct Pace {
  std::size_t of_step, at_end;
};

// Up to two parts by up to two panels, or up to four parts by one, from a column of the sums on.
template <std::size_t parts, std::size_t panels, Streamed streamed>
void multiply_parts(const GemmBlock& block, const std::uint8_t* const* a, const std::uint8_t* b,
                    const std::int32_t* offset, const Pace& pace, Unfinished& before,
                    std::int32_t (*sums)[kTileRows][kColumns], std::size_t column) noexcept {
  constexpr std::size_t kGroupStride = kNr * 4, kSumStride = kColumns * 4;
  const std::size_t a_stride = block.a_row_stride;
  const auto load_a0 = [&](const std::uint8_t* from) __attribute__((always_inline)) {
    if constexpr (streamed == Streamed::a) {
      _tile_stream_loadd(4, from, a_stride);
    } else {
      _tile_loadd(4, from, a_stride);
    }
  };
  const auto load_a1 = [&](const std::uint8_t* from) __attribute__((always_inline)) {
    if constexpr (streamed == Streamed::a) {
      _tile_stream_loadd(5, from, a_stride);
    } else {
      _tile_loadd(5, from, a_stride);
    }
  };
  // All rows of an accumulator begin as the offsets, which are loaded right before its first product: other loads come
  // first that more products wait for.
  const std::int32_t* second_offset = panels == 2 ? offset + kNr : offset;
  const auto begin_0 = [&]() __attribute__((always_inline)) { _tile_loadd(0, offset, 0); };
  const auto begin_1 = [&]() __attribute__((always_inline)) { _tile_loadd(1, second_offset, 0); };
  const auto begin_2 = [&]() __attribute__((always_inline)) { _tile_loadd(2, offset, 0); };
  const auto begin_3 = [&]() __attribute__((always_inline)) { _tile_loadd(3, second_offset, 0); };
  bool first = block.k != 0;
  if (block.segments == 0 || !first) {
    begin_0();
    if constexpr (parts * panels > 1) begin_1();
    if constexpr (parts * panels > 2) begin_2();
    if constexpr (parts * panels > 3) begin_3();
  }
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    std::size_t at = block.a_offsets[segment];
    const std::uint8_t *b0 = b + block.b_offsets[segment], *b1 = b0 + block.b_panel_stride;
    for (const std::size_t end = at + block.k; at != end; at += kKr, b0 += kKr * kNr, b1 += kKr * kNr) {
      if constexpr (streamed == Streamed::b) {
        _tile_stream_loadd(6, b0, kGroupStride);
      } else {
        _tile_loadd(6, b0, kGroupStride);
      }
      load_a0(a[0] + at);
      if (first) begin_0();
      _tile_dpbusd(0, 4, 6);
      if constexpr (panels == 2) {
        if constexpr (streamed == Streamed::b) {
          _tile_stream_loadd(7, b1, kGroupStride);
        } else {
          _tile_loadd(7, b1, kGroupStride);
        }
        if (first) begin_1();
        _tile_dpbusd(1, 4, 7);
        if constexpr (parts == 2) {
          load_a1(a[1] + at);
          if (first) begin_2();
          _tile_dpbusd(2, 5, 6);
          if (first) begin_3();
          _tile_dpbusd(3, 5, 7);
        }
      } else {
        if constexpr (parts > 1) {
          load_a1(a[1] + at);
          if (first) begin_1();
          _tile_dpbusd(1, 5, 6);
        }
        if constexpr (parts > 2) {
          load_a0(a[2] + at);
          if (first) begin_2();
          _tile_dpbusd(2, 4, 6);
        }
        if constexpr (parts > 3) {
          load_a1(a[3] + at);
          if (first) begin_3();
          _tile_dpbusd(3, 5, 6);
        }
      }
      first = false;
      before.finish(pace.of_step);
    }
  }
  before.finish(pace.at_end);
  _tile_stored(0, sums[0][0] + column, kSumStride);
  if constexpr (panels == 2) {
    _tile_stored(1, sums[0][0] + kNr, kSumStride);
    if constexpr (parts == 2) {
      _tile_stored(2, sums[1][0], kSumStride);
      _tile_stored(3, sums[1][0] + kNr, kSumStride);
    }
  } else {
    if constexpr (parts > 1) _tile_stored(1, sums[1][0] + column, kSumStride);
    if constexpr (parts > 2) _tile_stored(2, sums[2][0] + column, kSumStride);
    if constexpr (parts > 3) _tile_stored(3, sums[3][0] + column, kSumStride);
  }
}

using PartsFunction = void (*)(const GemmBlock& block, const std::uint8_t* const* a, const std::uint8_t* b,
                               const std::int32_t* offset, const Pace& pace, Unfinished& before,
                               std::int32_t (*sums)[kTileRows][kColumns], std::size_t column) noexcept;

// By the parts, for one panel and for two; three or four parts take the second panel afterwards.
template <Streamed streamed>
constexpr PartsFunction kPartsFunctions[2][kMostParts] = {
    {multiply_parts<1, 1, streamed>, multiply_parts<2, 1, streamed>, multiply_parts<3, 1, streamed>,
     multiply_parts<4, 1, streamed>},
    {multiply_parts<1, 2, streamed>, multiply_parts<2, 2, streamed>, multiply_parts<3, 1, streamed>,
     multiply_parts<4, 1, streamed>}};

class Product {
 public:
  explicit Product(const GemmBlock& block) noexcept
      : block_(block), cut_(block), order_(order_of(block, cut_)), before_(block, cut_) {}

  void multiply() noexcept {
    configure(cut_.rows());
    for (std::size_t first = 0; first < block_.n; first += order_.columns) {
      const std::size_t end = block_.n - first < order_.columns ? block_.n : first + order_.columns;
      for_each_group([&](Area& area) {
        for (std::size_t panel = first; panel < end; panel += kColumns) multiply_area(area, panel);
      });
    }
    before_.finish(SIZE_MAX);
    _tile_release();
  }

 private:
  // Groups are as large as the order wants, but never a single part if there are others.
  template <class Function>
  void for_each_group(Function function) const noexcept {
    for (std::size_t index = 0; index < cut_.count();) {
      const std::size_t left = cut_.count() - index;
      const bool is_three = left == 3 || (left == 5 && order_.parts == 4);
      Area area = {};
      area.count = is_three ? 3 : left < order_.parts ? left : order_.parts;
      for (std::size_t i = 0; i < area.count; ++i) area.parts[i] = cut_.part(index + i);
      index += area.count;
      function(area);
    }
  }

  void multiply_area(Area& area, std::size_t panel) noexcept {
    area.panel = panel;
    area.columns = block_.n - panel < kColumns ? block_.n - panel : kColumns;
    const bool has_second = area.columns > kNr;
    const std::size_t times = has_second && area.count > 2 ? 2 : 1;
    const std::size_t steps = times * block_.segments * (block_.k / kKr), rows = area.count * cut_.rows();
    Pace pace = {steps == 0 ? 0 : (rows / steps / kRowsAtOnce + 1) * kRowsAtOnce, 0};
    const std::uint8_t* a[kMostParts];
    for (std::size_t i = 0; i < area.count; ++i) {
      a[i] = block_.a + area.parts[i].run * block_.a_run_stride + area.parts[i].position * block_.a_row_stride;
    }
    for (std::size_t column = 0; column < times * kNr; column += kNr) {
      if (column + kNr == times * kNr) pace.at_end = SIZE_MAX;
      function(has_second, area.count)(block_, a, block_.b + (panel + column) / kNr * block_.b_panel_stride,
                                       block_.offset + panel + column, pace, before_, sums_[buffer_], column);
    }
    before_.begin(area, sums_[buffer_]);
    buffer_ ^= 1;
  }

  PartsFunction function(bool has_second, std::size_t parts) const noexcept {
    switch (order_.streamed) {
      case Streamed::a:
        return kPartsFunctions<Streamed::a>[has_second][parts - 1];
      case Streamed::b:
        return kPartsFunctions<Streamed::b>[has_second][parts - 1];
      default:
        return kPartsFunctions<Streamed::none>[has_second][parts - 1];
    }
  }

  const GemmBlock& block_;
  const Cut cut_;
  const Order order_;
  Unfinished before_;
  std::size_t buffer_ = 0;
  alignas(64) Sums sums_[2];
};

void multiply(const GemmBlock& block) noexcept {
  if (block.runs == 0 || block.m == 0 || block.n == 0) return;
  Product(block).multiply();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1024, .multiply = multiply};

}  // namespace dmlcpu
