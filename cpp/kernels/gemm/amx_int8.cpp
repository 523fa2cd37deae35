// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation. tdpbssd does
// so with a of signed codes, as fast.
//
// Of a's rows, a tile takes a part: parts are equal, of at most 16 rows, so that tiles are configured once. A product
// takes 16 cycles, and the next may add to its accumulators at once. Two parts are multiplied by two panels at a time:
//
//            b 0 (6)  b 1 (7)
//   a 0 (4)    0        1        4 loads for 4 products
//   a 1 (5)    2        3
//
// A load takes 8 cycles from L1, some 20 from L2, and over 50 where its rows cross cache lines: such rows are copied
// first, line by line, if they are not too long. One operand may come from L2; where both do, four products take 88
// cycles in place of 72.
//
// An area is two parts by two panels: two of its rows of 32 sums become 64 codes at a time (amx_finish.inl.h). Its sums
// leave the tiles when the next area begins, and become codes when that is under way. Tiles are released before
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
constexpr std::size_t kTileRows = kMr, kMostParts = 2, kSumColumns = 2 * kNr;
constexpr std::size_t kMostTermsCopied = 1536;  // of rows that are copied to L1
constexpr std::size_t kLeastColumns = 128;      // four areas for rows that come from L2

// Of a row of a, in whole steps.
std::size_t terms_of(const GemmBlock& block) noexcept {
  return block.joined_terms != 0 ? block.k : block.segments * block.k;
}

#include "kernels/gemm/amx_cut.inl.h"
#include "kernels/gemm/amx_finish.inl.h"
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

// Neighbouring parts, of which the products are made at a time, and their rows that are results.
struct Group {
  bool is_first;
  std::size_t parts, stretches;
  const std::uint8_t* a[kMostParts];
  Stretch stretch[kMostParts * kTileRows];
};

// The sums of a group by one or two panels of b.
struct Area {
  const Group* group;
  std::size_t panel, columns;
};

class Product {
 public:
  explicit Product(const GemmBlock& block) noexcept
      : block_(block),
        cut_(block),
        finish_(block),
        copies_(copies_rows()),
        functions_(parts_functions(false, block.a_is_signed)),
        later_functions_(parts_functions(streams_b(), block.a_is_signed)) {
    const bool joins = block.joined_terms != 0;
    operands_.a_row_stride = joins ? block.k : copies_ ? kKr : block.a_row_stride;
    operands_.a_step = copies_ && !joins ? kTileRows * kKr : kKr;
    operands_.a_offsets = copies_ ? nullptr : block.a_offsets;
    operands_.b_panel_stride = block.b_panel_stride;
    operands_.b_offsets = block.b_offsets;
    operands_.segments = joins ? 1 : block.segments;
    operands_.k = block.k;
  }

  void multiply() noexcept {
    _tile_loadconfig(&kTileConfigurations.of_rows[cut_.rows()]);
    const std::size_t columns = columns_at_once();
    for (std::size_t panel = 0; panel < block_.n; panel += columns) {
      multiply_columns(panel, block_.n - panel < columns ? block_.n : panel + columns);
    }
    pending_.store_all();
    finish(before_);
    _tile_release();
  }

 private:
  // Bytes of b that stay in L2 while all rows pass by, and of b that stays in L1.
  static constexpr std::size_t kMostFilter = 1 << 20, kMostKept = 1 << 14;
  static constexpr std::size_t kPartSums = kTileRows * kSumColumns;

  // All, or about equal parts that stay in L2.
  std::size_t columns_at_once() const noexcept {
    const std::size_t bytes = terms_of(block_) * block_.n, parts = (bytes + kMostFilter - 1) / kMostFilter;
    if (parts < 2) return block_.n;
    const std::size_t columns = (block_.n + parts - 1) / parts;
    return (columns + kSumColumns - 1) / kSumColumns * kSumColumns;
  }

  // What is streamed leaves L1 first. The first rows do not stream b: it may come from beyond L2, and is to stay there
  // for the others.
  bool streams_b() const noexcept { return terms_of(block_) * block_.n > kMostKept; }

  bool copies_rows() const noexcept {
    if (block_.joined_terms != 0) return true;
    std::size_t addresses = reinterpret_cast<std::uintptr_t>(block_.a) | block_.a_row_stride;
    if (block_.runs > 1) addresses |= block_.a_run_stride;
    for (std::size_t i = 0; i < block_.segments; ++i) addresses |= block_.a_offsets[i];
    return addresses % 64 != 0 && block_.segments * block_.k <= kMostTermsCopied;
  }

  void multiply_columns(std::size_t first, std::size_t end) noexcept {
    for (std::size_t part = 0; part < cut_.count(); part += kMostParts) {
      // The rows of the other group may not have become codes yet.
      Group& group = groups_[next_group_];
      next_group_ ^= 1;
      begin(group, part);
      for (std::size_t panel = first; panel < end; panel += kSumColumns) multiply_area(group, panel);
    }
  }

  void begin(Group& group, std::size_t first) noexcept {
    const std::size_t left = cut_.count() - first;
    group.is_first = first == 0;
    group.parts = left < kMostParts ? left : kMostParts;
    group.stretches = 0;
    for (std::size_t i = 0; i < group.parts; ++i) {
      const Part part = cut_.part(first + i);
      group.a[i] = block_.a + part.run * block_.a_run_stride + part.position * block_.a_row_stride;
      std::uint8_t* copied = copied_ + i * kTileRows * kMostTermsCopied;
      if (block_.joined_terms != 0) {
        group.a[i] = join(group.a[i], copied);
      } else if (copies_) {
        group.a[i] = copy(group.a[i], copied);
      }
      for (std::size_t done = part.done; done < cut_.rows();) {
        const Cut::Rows rows = cut_.rows_of(part, done);
        if (rows.count != 0) add(group, rows, i * kPartSums + done * kSumColumns);
        done = rows.done;
      }
    }
  }

  // Rows that follow those before them, of the part before, too, are finished with them.
  void add(Group& group, const Cut::Rows& rows, std::size_t sums) const noexcept {
    const std::size_t activation = rows.run * block_.m + rows.row;
    if (group.stretches != 0) {
      Stretch& before = group.stretch[group.stretches - 1];
      if (rows.row != 0 && before.sums + before.rows * kSumColumns == sums) {
        before.rows += rows.count;
        return;
      }
    }
    const std::size_t place = rows.run * block_.output_run_stride + rows.row * block_.output_row_stride;
    group.stretch[group.stretches++] = {sums, place, activation, rows.count};
  }

  // The rows of a part as tiles, one after the other.
  const std::uint8_t* copy(const std::uint8_t* a, std::uint8_t* tiles) const noexcept {
    const std::size_t rows = cut_.rows(), stride = block_.a_row_stride, k = block_.k, segments = block_.segments;
    std::uint8_t* to = tiles;
    for (std::size_t segment = 0; segment < segments; ++segment) {
      const std::uint8_t* from = a + block_.a_offsets[segment];
      for (std::size_t step = 0; step < k; step += kKr, to += kTileRows * kKr) {
        for (std::size_t row = 0; row < rows; ++row) {
          _mm512_store_si512(to + row * kKr, _mm512_loadu_si512(from + step + row * stride));
        }
      }
    }
    return tiles;
  }

  // The rows of a part, each of its segments one after the other. What is written behind a segment gives way to what
  // follows, or meets zeros in b.
  const std::uint8_t* join(const std::uint8_t* a, std::uint8_t* rows) const noexcept {
    const std::size_t terms = block_.joined_terms, whole = terms / 64 * 64, segments = block_.segments;
    const std::size_t* offsets = block_.a_offsets;
    const __mmask64 mask = (__mmask64{1} << terms % 64) - 1;
    const bool is_short = terms <= 32;
    const auto mask_of_short = static_cast<__mmask32>((std::uint64_t{1} << (is_short ? terms : 0)) - 1);
    for (std::size_t row = 0; row < cut_.rows(); ++row, a += block_.a_row_stride) {
      std::uint8_t* to = rows + row * block_.k;
      for (std::size_t segment = 0; segment < segments; ++segment, to += terms) {
        const std::uint8_t* from = a + offsets[segment];
        if (is_short) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskz_loadu_epi8(mask_of_short, from));
          continue;
        }
        for (std::size_t i = 0; i < whole; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
        if (mask != 0) _mm512_storeu_si512(to + whole, _mm512_maskz_loadu_epi8(mask, from + whole));
      }
    }
    return rows;
  }

  // The sums of the area before leave the tiles meanwhile.
  void multiply_area(const Group& group, std::size_t panel) noexcept {
    const Area area = {&group, panel, columns_from(panel)};
    const bool has_second_panel = area.columns > kNr, has_second_part = group.parts == 2;
    operands_.a[0] = group.a[0];
    operands_.a[1] = group.a[group.parts - 1];
    operands_.b = block_.b + panel / kNr * block_.b_panel_stride;
    operands_.offset = aligned_offsets(panel);
    const PartsFunctions& functions = group.is_first ? functions_ : later_functions_;
    functions[has_second_panel][has_second_part](operands_, pending_);
    finish(before_);
    pending_ = {sums_, has_second_panel, has_second_part};
    before_ = area;
  }

  // Rows that cross cache lines would be loaded as slowly as those of a.
  const std::int32_t* aligned_offsets(std::size_t panel) noexcept {
    const std::int32_t* offset = block_.offset + panel;
    if (reinterpret_cast<std::uintptr_t>(offset) % 64 == 0) return offset;
    _mm512_store_si512(offsets_, _mm512_loadu_si512(offset));
    if (block_.n - panel > kNr) _mm512_store_si512(offsets_ + kNr, _mm512_loadu_si512(offset + kNr));
    return offsets_;
  }

  void finish(const Area& area) const noexcept {
    if (area.group == nullptr) return;
    finish_.of_columns(area.columns)(block_, {.panel = area.panel,
                                              .columns = area.columns,
                                              .sums = sums_,
                                              .stretches = area.group->stretch,
                                              .count = area.group->stretches});
  }

  std::size_t columns_from(std::size_t panel) const noexcept {
    return block_.n - panel < kSumColumns ? block_.n - panel : kSumColumns;
  }

  const GemmBlock& block_;
  const Cut cut_;
  const Finish finish_;
  const bool copies_;
  const PartsFunctions &functions_, &later_functions_;  // of the first rows, and of all others
  Operands operands_;
  Pending pending_;
  Area before_ = {};
  std::size_t next_group_ = 0;
  Group groups_[2];
  alignas(64) std::int32_t offsets_[2 * kNr];
  alignas(64) std::int32_t sums_[kMostParts * kPartSums];
  alignas(64) std::uint8_t copied_[kMostParts * kTileRows * kMostTermsCopied + 64];
};

void multiply(const GemmBlock& block) noexcept {
  if (block.runs == 0 || block.m == 0 || block.n == 0) return;
  Product(block).multiply();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {.mr = kMr,
                                              .nr = kNr,
                                              .kr = kKr,
                                              .products_per_cycle = 1024,
                                              .cycles_of_rows = 200,
                                              .cycles_of_area = 136,
                                              .multiplies_signed = true,
                                              .most_joined = kMostTermsCopied,
                                              .least_columns = kLeastColumns,
                                              .multiply = multiply};

}  // namespace dmlcpu
