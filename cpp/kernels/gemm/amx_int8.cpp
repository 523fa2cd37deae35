// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation. tdpbssd does
// so with a of signed codes, as fast.
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
// Accumulators begin as the offsets and leave through one of two buffers in L1. The vector unit requantizes them, 64
// beside each product of the next area: the tile unit makes those by itself (amx_unfinished.inl.h). Tiles are released
// before returning, so that a context switch saves nothing.
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
#include "kernels/gemm/amx_unfinished.inl.h"

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

using Sums = std::int32_t[kMostParts][kTileRows][kColumns];

// Neighbouring parts, of which the products are made at a time.
struct Group {
  std::size_t count;
  const std::uint8_t* a[kMostParts];
  Rows rows;
};

// The tile of accumulators c and one of products. Instructions name their tiles, so that no function can be told them.
#define DMLCPU_ADD_PRODUCT(c, a, b) \
  if constexpr (a_is_signed) {      \
    _tile_dpbssd(c, a, b);          \
  } else {                          \
    _tile_dpbusd(c, a, b);          \
  }

// Up to two parts by up to two panels, or up to four parts by one, from a column of the sums on. Beside each product 64
// sums of the area before become codes or, if `twice`, 128.
template <std::size_t parts, std::size_t panels, Streamed streamed, bool a_is_signed>
void multiply_parts(const GemmBlock& block, const std::uint8_t* const* a, const std::uint8_t* b,
                    const std::int32_t* offset, bool twice, Unfinished& before,
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
  // The products run by themselves while the vector unit does something else.
  Finisher finisher(before);
  const auto meanwhile = [&]() __attribute__((always_inline)) { finisher.finish_some(twice); };
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
      DMLCPU_ADD_PRODUCT(0, 4, 6)
      meanwhile();
      if constexpr (panels == 2) {
        if constexpr (streamed == Streamed::b) {
          _tile_stream_loadd(7, b1, kGroupStride);
        } else {
          _tile_loadd(7, b1, kGroupStride);
        }
        if (first) begin_1();
        DMLCPU_ADD_PRODUCT(1, 4, 7)
        meanwhile();
        if constexpr (parts == 2) {
          load_a1(a[1] + at);
          if (first) begin_2();
          DMLCPU_ADD_PRODUCT(2, 5, 6)
          meanwhile();
          if (first) begin_3();
          DMLCPU_ADD_PRODUCT(3, 5, 7)
          meanwhile();
        }
      } else {
        if constexpr (parts > 1) {
          load_a1(a[1] + at);
          if (first) begin_1();
          DMLCPU_ADD_PRODUCT(1, 5, 6)
          meanwhile();
        }
        if constexpr (parts > 2) {
          load_a0(a[2] + at);
          if (first) begin_2();
          DMLCPU_ADD_PRODUCT(2, 4, 6)
          meanwhile();
        }
        if constexpr (parts > 3) {
          load_a1(a[3] + at);
          if (first) begin_3();
          DMLCPU_ADD_PRODUCT(3, 5, 6)
          meanwhile();
        }
      }
      first = false;
    }
  }
  _tile_stored(0, sums[0][0] + column, kSumStride);
  meanwhile();
  if constexpr (panels == 2) {
    _tile_stored(1, sums[0][0] + kNr, kSumStride);
    meanwhile();
    if constexpr (parts == 2) {
      _tile_stored(2, sums[1][0], kSumStride);
      meanwhile();
      _tile_stored(3, sums[1][0] + kNr, kSumStride);
    }
  } else {
    if constexpr (parts > 1) _tile_stored(1, sums[1][0] + column, kSumStride);
    if constexpr (parts > 2) _tile_stored(2, sums[2][0] + column, kSumStride);
    if constexpr (parts > 3) _tile_stored(3, sums[3][0] + column, kSumStride);
  }
  finisher.save_to(before);
}

#undef DMLCPU_ADD_PRODUCT

using PartsFunction = void (*)(const GemmBlock& block, const std::uint8_t* const* a, const std::uint8_t* b,
                               const std::int32_t* offset, bool twice, Unfinished& before,
                               std::int32_t (*sums)[kTileRows][kColumns], std::size_t column) noexcept;

// By the parts, for one panel and for two; three or four parts take the second panel afterwards.
template <Streamed streamed, bool a_is_signed>
constexpr PartsFunction kPartsFunctions[2][kMostParts] = {
    {multiply_parts<1, 1, streamed, a_is_signed>, multiply_parts<2, 1, streamed, a_is_signed>,
     multiply_parts<3, 1, streamed, a_is_signed>, multiply_parts<4, 1, streamed, a_is_signed>},
    {multiply_parts<1, 2, streamed, a_is_signed>, multiply_parts<2, 2, streamed, a_is_signed>,
     multiply_parts<3, 1, streamed, a_is_signed>, multiply_parts<4, 1, streamed, a_is_signed>}};

template <bool a_is_signed>
PartsFunction parts_function(Streamed streamed, bool has_second, std::size_t parts) noexcept {
  switch (streamed) {
    case Streamed::a:
      return kPartsFunctions<Streamed::a, a_is_signed>[has_second][parts - 1];
    case Streamed::b:
      return kPartsFunctions<Streamed::b, a_is_signed>[has_second][parts - 1];
    default:
      return kPartsFunctions<Streamed::none, a_is_signed>[has_second][parts - 1];
  }
}

class Product {
 public:
  explicit Product(const GemmBlock& block) noexcept
      : block_(block), cut_(block), order_(order_of(block, cut_)), before_(block) {}

  void multiply() noexcept {
    configure(cut_.rows());
    for (std::size_t first = 0; first < block_.n; first += order_.columns) {
      const std::size_t end = block_.n - first < order_.columns ? block_.n : first + order_.columns;
      for (std::size_t part = 0; part < cut_.count();) {
        // The rows of the other group may not have become codes yet.
        Group& group = groups_[next_group_];
        next_group_ ^= 1;
        begin(group, part);
        for (std::size_t panel = first; panel < end; panel += kColumns) multiply_area(group, panel);
        part += group.count;
      }
    }
    finish_before();
    _tile_release();
  }

 private:
  // As large as the order wants, but never a single part if there are others.
  void begin(Group& group, std::size_t first) const noexcept {
    const std::size_t left = cut_.count() - first;
    const bool is_three = left == 3 || (left == 5 && order_.parts == 4);
    group.count = is_three ? 3 : left < order_.parts ? left : order_.parts;
    group.rows.clear();
    for (std::size_t i = 0; i < group.count; ++i) {
      const Part part = cut_.part(first + i);
      group.a[i] = block_.a + part.run * block_.a_run_stride + part.position * block_.a_row_stride;
      for (std::size_t done = part.done; done < cut_.rows();) {
        const Cut::Stretch stretch = cut_.stretch(part, done);
        group.rows.add(block_, stretch, (i * kTileRows + done) * kColumns);
        done = stretch.done;
      }
    }
    group.rows.end(block_);
  }

  void multiply_area(const Group& group, std::size_t panel) noexcept {
    const std::size_t columns = block_.n - panel < kColumns ? block_.n - panel : kColumns;
    const bool has_second = columns > kNr;
    const std::size_t times = has_second && group.count > 2 ? 2 : 1;
    // From four steps of k on there are as many products as there are 64 sums.
    const bool twice = block_.segments * block_.k < 4 * kKr;
    Sums& sums = sums_[next_sums_];
    next_sums_ ^= 1;
    for (std::size_t column = 0; column < times * kNr; column += kNr) {
      function(has_second, group.count)(block_, group.a, block_.b + (panel + column) / kNr * block_.b_panel_stride,
                                        block_.offset + panel + column, twice, before_, sums, column);
    }
    finish_before();
    before_.begin({&group.rows, sums[0][0], panel, columns});
  }

  void finish_before() noexcept {
    Finisher(before_).finish_all();
    before_.finish_others();
  }

  PartsFunction function(bool has_second, std::size_t parts) const noexcept {
    return block_.a_is_signed ? parts_function<true>(order_.streamed, has_second, parts)
                              : parts_function<false>(order_.streamed, has_second, parts);
  }

  const GemmBlock& block_;
  const Cut cut_;
  const Order order_;
  Unfinished before_;
  std::size_t next_group_ = 0, next_sums_ = 0;
  Group groups_[2];
  alignas(64) Sums sums_[2];
};

void multiply(const GemmBlock& block) noexcept {
  if (block.runs == 0 || block.m == 0 || block.n == 0) return;
  Product(block).multiply();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1024, .multiplies_signed = true, .multiply = multiply};

}  // namespace dmlcpu
