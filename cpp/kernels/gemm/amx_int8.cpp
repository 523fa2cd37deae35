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
// the operands has to stay in L1 while the other passes through, or a range of k of it at a time, beside sums that are
// loaded again for the next range: order_of() says which.
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
static_assert(kRangeColumns == 4 * kNr);
#include "kernels/gemm/amx_parts.inl.h"

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {};
};

// The tiles of a and of the accumulators have 1 to 16 rows, those of b 16. They are data: read right after they were
// written piece by piece, they would be waited for.
struct TileConfigurations {
  TileConfiguration of_rows[kTileRows + 1];

  constexpr TileConfigurations() {
    for (std::size_t rows = 1; rows <= kTileRows; ++rows) {
      for (int tile = 0; tile < 8; ++tile) {
        of_rows[rows].rows[tile] = static_cast<std::uint8_t>(tile < 6 ? rows : kTileRows);
      }
    }
  }
};

constexpr TileConfigurations kTileConfigurations;

// Neighbouring parts, of which the products are made at a time.
struct Group {
  std::size_t count;
  const std::uint8_t* a[kMostParts];
  Rows rows;
};

class Product {
 public:
  explicit Product(const GemmBlock& block) noexcept
      : block_(block), cut_(block), order_(order_of(block, cut_)), before_(block) {}

  void multiply() noexcept {
    _tile_loadconfig(&kTileConfigurations.of_rows[cut_.rows()]);
    for (std::size_t first = 0; first < block_.n; first += order_.columns) {
      const std::size_t end = block_.n - first < order_.columns ? block_.n : first + order_.columns;
      for (std::size_t part = 0; part < cut_.count();) {
        // The rows of the other group may not have become codes yet.
        Group& group = groups_[next_group_];
        next_group_ ^= 1;
        begin(group, part);
        if (order_.by_ranges) {
          for (std::size_t panel = first; panel < end; panel += kRangeColumns) multiply_ranges(group, panel);
        } else {
          for (std::size_t panel = first; panel < end; panel += kColumns) multiply_area(group, panel);
        }
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

  // All terms of up to 32 columns.
  void multiply_area(const Group& group, std::size_t panel) noexcept {
    const Terms terms = {block_.a_offsets, block_.b_offsets, block_.segments, 0, block_.k};
    const std::size_t columns = columns_from(panel, kColumns);
    const bool has_second = columns > kNr;
    const std::size_t times = has_second && group.count > 2 ? 2 : 1;
    const PartsFunction function = parts_function(
        block_, order_, [&](const auto& functions) { return functions.kOfParts[has_second][group.count - 1]; });
    PartSums* sums = next_sums();
    for (std::size_t column = 0; column < times * kNr; column += kNr) {
      function(block_, terms, group.a, b_from(panel + column), Beginning::offsets(block_.offset + panel + column),
               has_few_products(terms), before_, sums, column);
    }
    finish_before();
    before_.begin({&group.rows, sums[0][0], panel, columns});
  }

  // The same of up to 64 columns, by ranges of k and part by part: as many products as there are 64 sums before, unless
  // ranges are short.
  void multiply_ranges(const Group& group, std::size_t panel) noexcept {
    const std::size_t columns = columns_from(panel, kRangeColumns), panels = (columns + kNr - 1) / kNr;
    const PartsFunction function =
        parts_function(block_, order_, [&](const auto& functions) { return functions.kOfPanels[panels - 1]; });
    PartSums* sums = next_sums();
    for_each_range(block_, kRangeTerms, [&](const Terms& terms, bool is_first) {
      for (std::size_t i = 0; i < group.count; ++i) {
        const Beginning beginning = is_first ? Beginning::offsets(block_.offset + panel) : Beginning::sums(sums[i][0]);
        function(block_, terms, group.a + i, b_from(panel), beginning, has_few_products(terms), before_, sums + i, 0);
        finish_next();
      }
    });
    finish_before();
    before_.begin({&group.rows, sums[0][0], panel, columns < kColumns ? columns : kColumns});
    if (columns > kColumns) waiting_ = {&group.rows, sums[kMostParts][0], panel + kColumns, columns - kColumns};
  }

  std::size_t columns_from(std::size_t panel, std::size_t most) const noexcept {
    return block_.n - panel < most ? block_.n - panel : most;
  }

  const std::uint8_t* b_from(std::size_t panel) const noexcept {
    return block_.b + panel / kNr * block_.b_panel_stride;
  }

  // From four steps of k on there are as many products as there are 64 sums.
  static bool has_few_products(const Terms& terms) noexcept { return terms.segments * terms.k < 4 * kKr; }

  // Not those in which sums wait to become codes.
  PartSums* next_sums() noexcept {
    sums_are_second_ = !sums_are_second_;
    return sums_ + (sums_are_second_ ? 2 * kMostParts : 0);
  }

  // Goes on with the area that waits, if there is one and the one before it is nearly finished.
  void finish_next() noexcept {
    if (waiting_.rows == nullptr || !before_.is_nearly_finished()) return;
    Finisher(before_).finish_all();
    before_.begin(waiting_);
    waiting_ = {};
  }

  void finish_before() noexcept {
    for (;;) {
      Finisher(before_).finish_all();
      before_.finish_others();
      if (waiting_.rows == nullptr) break;
      before_.begin(waiting_);
      waiting_ = {};
    }
    before_.end();
  }

  const GemmBlock& block_;
  const Cut cut_;
  const Order order_;
  Unfinished before_;
  Area waiting_ = {};  // the second of two, behind `before_`
  std::size_t next_group_ = 0;
  bool sums_are_second_ = false;
  Group groups_[2];
  alignas(64) PartSums sums_[4 * kMostParts];  // of two areas, and of two before them
};

void multiply(const GemmBlock& block) noexcept {
  if (block.runs == 0 || block.m == 0 || block.n == 0) return;
  Product(block).multiply();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1024, .multiplies_signed = true, .multiply = multiply};

}  // namespace dmlcpu
