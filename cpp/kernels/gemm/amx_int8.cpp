// The product of gemm.h for AMX-INT8: a tile is 16 rows of 64 bytes; tdpbusd multiplies a tile of a (16 rows x 64 k) by
// a tile of b (16 k groups x 16 columns) and adds to a tile of 16 x 16 accumulators, without saturation. tdpbssd does
// so with a of signed codes, tdpbsud with these and b of unsigned ones, as fast.
//
// Of a's rows, a tile takes a part: parts are equal, of at most 16 rows, so that tiles are configured once. A product
// takes 16 cycles, and the next may add to its accumulators at once. Two parts are multiplied by two panels at a time:
//
//            b 0 (6)  b 1 (7)
//   a 0 (4)    0        1        4 loads for 4 products
//   a 1 (5)    2        3
//
// A load takes 8 cycles from L1, some 20 from L2, and over 50 where its rows cross cache lines: such rows are copied
// first, line by line, if they are not too long, or read from the beginning of a line on (amx_row_classes.inl.h). One
// operand may come from L2; where both do, four products take 88 cycles in place of 72. A block of three or four parts,
// by a large b that may come from beyond L2, has all of its parts multiplied by a panel at a time: 5 loads for 4
// products, but b is read once, in a single stream.
//
// Products of some parts by some panels are an area: its sums leave the tiles when the next area begins, and become
// codes, 64 at a time, among the products of the area after that (amx_squares.inl.h), or behind some
// (amx_finish.inl.h). Tiles are released before returning, so that a context switch saves nothing.
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
static_assert(kMostPanelColumns % kNr == 0);
constexpr std::size_t kTileRows = kMr, kMostParts = 4;
constexpr std::size_t kLine = 64;                // bytes of a cache
constexpr std::size_t kMostTermsCopied = 1536;   // of rows that are copied to L1
constexpr std::size_t kMostFilter = 1 << 19;     // bytes of b that stay in L2 while all rows pass by
constexpr std::size_t kMostKept = 1 << 14;       // bytes of b that stay in L1
constexpr std::size_t kLeastTall = 1 << 20;      // bytes of b from which on it may come from beyond L2
constexpr std::size_t kMostRowBytes = 44 << 10;  // bytes of a that stay in L1 beside b
constexpr std::size_t kLeastColumns = 128;       // four areas for rows that come from L2
constexpr std::size_t kMostTermsRepeated = 256;  // of a panel, so that areas are squares

// Of a row of a, in whole steps.
std::size_t terms_of(const GemmBlock& block) noexcept { return block.segments * block.k; }

// How many parts by how many panels an area has at most.
struct AreaSize {
  std::size_t parts, panels;

  constexpr std::size_t columns() const noexcept { return panels * kNr; }
  constexpr std::size_t part_sums() const noexcept { return kTileRows * columns(); }
};
constexpr AreaSize kSquare = {2, 2}, kTall = {4, 1};

#include "kernels/gemm/amx_areas.inl.h"
#include "kernels/gemm/amx_cut.inl.h"
#include "kernels/gemm/amx_finish.inl.h"
#include "kernels/gemm/amx_parts.inl.h"
#include "kernels/gemm/amx_row_classes.inl.h"
#include "kernels/gemm/amx_squares.inl.h"
#include "kernels/gemm/amx_variants.inl.h"

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
  std::size_t parts;
  const std::uint8_t* a[kMostParts];
  ResultRows rows;
};

class Product {
 public:
  explicit Product(const GemmBlock& block) noexcept
      : block_(block),
        cut_(block),
        functions_(block, streams_b()),
        copies_(copies_rows()),
        most_(area_size()),
        has_squares_(functions_.has_squares() && cut_.count() > kSquare.parts && most_.parts == kSquare.parts &&
                     block.n >= kSquare.columns() && (block.is_of_planes || is_aligned(block.offset))),
        repeats_panel_(has_squares_ && terms_of(block) <= kMostTermsRepeated),
        steps_(block.output_row_stride, most_.columns()),
        waiting_(sums_[0], sums_[1], most_.columns()) {
    operands_.a_row_stride = copies_ ? kKr : block.a_row_stride;
    operands_.a_step = copies_ ? kTileRows * kKr : kKr;
    operands_.a_offsets = copies_ ? nullptr : block.a_offsets;
    operands_.b_panel_stride = block.b_panel_stride;
    operands_.b_offsets = block.b_offsets;
    operands_.segments = block.segments;
    operands_.k = block.k;
    operands_.row_offsets = row_offsets_;
  }

  void multiply() noexcept {
    _tile_loadconfig(&kTileConfigurations.of_rows[cut_.rows()]);
    const std::size_t columns = cut_.count() > most_.parts ? columns_at_once() : block_.n;
    for (std::size_t panel = 0; panel < block_.n; panel += columns) {
      const std::size_t end = block_.n - panel < columns ? block_.n : panel + columns;
      const std::size_t next_end = block_.n - end < columns ? block_.n : end + columns;
      ahead_ = {panel_from(end + kNr - 1), panel_from(next_end + kNr - 1)};
      multiply_columns(panel, end);
    }
    waiting_.in_tiles().store_all();
    functions_.finish(block_, waiting_.stored());
    functions_.finish(block_, waiting_.in_tiles());
    _tile_release();
  }

 private:
  // Four parts by a panel read b once for all rows of a block that has no more, in a single stream, but load a quarter
  // more tiles.
  AreaSize area_size() const noexcept {
    const bool is_one_group = cut_.count() > kSquare.parts && cut_.count() <= kTall.parts;
    return is_one_group && !copies_ && terms_of(block_) * block_.n > kLeastTall && bytes_of_rows() <= kMostRowBytes
               ? kTall
               : kSquare;
  }

  // Of a that is read, about.
  std::size_t bytes_of_rows() const noexcept {
    const std::size_t rows = block_.runs * block_.m;
    if (block_.segments == 0) return 0;
    const std::size_t span = block_.a_offsets[block_.segments - 1] + (block_.runs - 1) * block_.a_run_stride +
                             (block_.m - 1) * block_.a_row_stride + block_.k;
    return span < rows * terms_of(block_) ? span : rows * terms_of(block_);
  }

  const std::uint8_t* panel_from(std::size_t column) const noexcept {
    return block_.b + column / kNr * block_.b_panel_stride;
  }

  // All, or about equal parts that stay in L2.
  std::size_t columns_at_once() const noexcept {
    const std::size_t bytes = terms_of(block_) * block_.n, parts = (bytes + kMostFilter - 1) / kMostFilter;
    if (parts < 2) return block_.n;
    const std::size_t columns = (block_.n + parts - 1) / parts;
    return (columns + most_.columns() - 1) / most_.columns() * most_.columns();
  }

  // What is streamed leaves L1 first. The first rows do not stream b: it may come from beyond L2, and is to stay there
  // for the others.
  bool streams_b() const noexcept { return terms_of(block_) * block_.n > kMostKept; }

  bool copies_rows() const noexcept {
    std::size_t addresses = reinterpret_cast<std::uintptr_t>(block_.a) | block_.a_row_stride;
    if (block_.runs > 1) addresses |= block_.a_run_stride;
    for (std::size_t i = 0; i < block_.segments; ++i) addresses |= block_.a_offsets[i];
    return addresses % 64 != 0 && terms_of(block_) <= kMostTermsCopied;
  }

  void multiply_columns(std::size_t first, std::size_t end) noexcept {
    Cut::Walk walk(cut_);
    for (std::size_t part = 0; part < cut_.count(); part += most_.parts) {
      // The rows of the two groups before may not have become codes yet.
      Group& group = groups_[next_group_];
      next_group_ = (next_group_ + 1) % kGroups;
      begin(group, part, walk);
      multiply_group(group, first, end);
    }
  }

  void begin(Group& group, std::size_t first, Cut::Walk& walk) noexcept {
    const std::size_t left = cut_.count() - first;
    group.is_first = first == 0;
    group.parts = left < most_.parts ? left : most_.parts;
    group.rows.clear();
    ResultRows::Stretch stretch = {};
    for (std::size_t i = 0; i < group.parts; ++i) {
      const Part part = walk.next_part();
      group.a[i] = block_.a + part.run * block_.a_run_stride + part.position * block_.a_row_stride;
      if (block_.is_of_planes) repeat_offsets(part.position, row_offsets_ + i * kTileRows * kNr);
      if (copies_) {
        std::uint8_t* copied = copied_ + i * kTileRows * kMostTermsCopied;
        group.a[i] = copy(group.a[i], copied);
      }
      for (std::size_t done = part.done; done < cut_.rows();) {
        const Cut::Walk::Rows rows = walk.next_rows(done);
        const std::size_t sums = i * most_.part_sums() + done * most_.columns();
        done = rows.done;
        if (rows.count == 0) continue;
        const std::size_t place = rows.run * block_.output_run_stride + rows.row * block_.output_row_stride;
        if (stretch.goes_on_at(sums, place, steps_)) {
          stretch.rows += rows.count;
          continue;
        }
        group.rows.add(stretch, steps_, functions_.row_terms());
        stretch = stretch_of(rows, sums, place);
      }
    }
    group.rows.add(stretch, steps_, functions_.row_terms());
  }

  // Accumulators are loaded from memory: each of a part's offsets for all columns of a panel.
  void repeat_offsets(std::size_t first_row, std::int32_t* repeated) const noexcept {
    for (std::size_t row = 0; row < cut_.rows(); ++row) {
      _mm512_store_si512(repeated + row * kNr, _mm512_set1_epi32(block_.offset[first_row + row]));
    }
  }

  ResultRows::Stretch stretch_of(const Cut::Walk::Rows& rows, std::size_t sums, std::size_t place) const noexcept {
    ResultRows::Stretch stretch = {rows.count, sums, place, nullptr, nullptr};
    const std::size_t row = rows.run * block_.m + rows.row;
    if (block_.is_of_planes && block_.multiplier != nullptr) stretch.multipliers = block_.multiplier + row;
    if (block_.filter_zero_point != nullptr) {
      stretch.terms = (block_.is_of_planes ? block_.filter_zero_point : block_.activation_sum) + row;
    }
    return stretch;
  }

  // The rows of a part as tiles, one after the other.
  const std::uint8_t* copy(const std::uint8_t* a, std::uint8_t* tiles) const noexcept {
    const std::size_t rows = cut_.rows(), stride = block_.a_row_stride, k = block_.k, segments = block_.segments;
    const __mmask64 terms_of_last = ~__mmask64{0} >> block_.padding;
    std::uint8_t* to = tiles;
    for (std::size_t segment = 0; segment < segments; ++segment) {
      const std::uint8_t* from = a + block_.a_offsets[segment];
      for (std::size_t step = 0; step < k; step += kKr, to += kTileRows * kKr) {
        if (block_.padding != 0 && step + kKr == k) {
          for (std::size_t row = 0; row < rows; ++row) {
            _mm512_store_si512(to + row * kKr, _mm512_maskz_loadu_epi8(terms_of_last, from + step + row * stride));
          }
          continue;
        }
        for (std::size_t row = 0; row < rows; ++row) {  // a mask, even of all, would take longer
          _mm512_store_si512(to + row * kKr, _mm512_loadu_si512(from + step + row * stride));
        }
      }
    }
    return tiles;
  }

  void multiply_group(Group& group, std::size_t first, std::size_t end) noexcept {
    operands_.a = group.a;
    for (std::size_t panel = first; panel < end;) {
      if (const std::size_t columns = columns_of_squares(group, end - panel); columns != 0) {
        functions_.multiply_squares(operands_, block_, group.rows, panel, panel + columns, waiting_, ahead_);
        panel += columns;
      } else {
        multiply_area(group, panel);
        panel += most_.columns();
      }
      if (repeats_panel_ && group.parts == kSquare.parts && panel < end && panel + kNr == end) panel -= kNr;
    }
  }

  // How many of those left follow as squares. Each finishes the area that was stored before it.
  std::size_t columns_of_squares(const Group& group, std::size_t left) noexcept {
    if (!has_squares_ || group.is_first || group.parts != kSquare.parts || !waiting_.stored().is_whole()) return 0;
    const std::size_t columns = left / kSquare.columns() * kSquare.columns();
    return waiting_.in_tiles().is_whole() || columns == 0 ? columns : kSquare.columns();
  }

  // The sums of the area before leave the tiles meanwhile. Where squares can follow, they wait for these to become
  // codes, and those stored before do now.
  void multiply_area(Group& group, std::size_t panel) noexcept {
    const std::size_t columns = block_.n - panel < most_.columns() ? block_.n - panel : most_.columns();
    const std::size_t panels = columns > kNr ? 2 : 1;
    operands_.b = block_.b + panel / kNr * block_.b_panel_stride;
    if (!block_.is_of_planes) operands_.offset = aligned_offsets(panel);
    functions_.multiply(operands_, group.parts, panels, group.is_first, waiting_.in_tiles());
    functions_.finish(block_, has_squares_ ? waiting_.stored() : waiting_.in_tiles());
    WaitingArea& next = has_squares_ ? waiting_.pass() : waiting_.in_tiles();
    next.take(group.rows, group.parts, panel, columns);
  }

  static bool is_aligned(const std::int32_t* offset) noexcept {
    return reinterpret_cast<std::uintptr_t>(offset) % 64 == 0;
  }

  // Rows that cross cache lines would be loaded as slowly as those of a.
  const std::int32_t* aligned_offsets(std::size_t panel) noexcept {
    const std::int32_t* offset = block_.offset + panel;
    if (is_aligned(offset)) return offset;
    _mm512_store_si512(offsets_, _mm512_loadu_si512(offset));
    if (block_.n - panel > kNr) _mm512_store_si512(offsets_ + kNr, _mm512_loadu_si512(offset + kNr));
    return offsets_;
  }

  const GemmBlock& block_;
  const Cut cut_;
  const AreaFunctions functions_;
  const bool copies_;
  const AreaSize most_;
  const bool has_squares_;
  const bool repeats_panel_;  // a single one that is left over is multiplied with the one before it, again
  const ResultRows::Steps steps_;
  Operands operands_;
  WaitingAreas waiting_;
  LinesAhead ahead_ = {};  // of the columns after those at hand
  std::size_t next_group_ = 0;
  static constexpr std::size_t kGroups = 3;  // of the area that is multiplied and of the two that wait
  Group groups_[kGroups];
  alignas(64) std::int32_t offsets_[2 * kNr];
  alignas(64) std::int32_t row_offsets_[kMostParts * kTileRows * kNr];  // of a group of products of planes
  // The second is used, and takes room in L1, only where areas are stored while others become codes.
  alignas(64) std::int32_t sums_[2][kSquare.parts * kSquare.part_sums()];
  alignas(64) std::uint8_t copied_[kSquare.parts * kTileRows * kMostTermsCopied + 64];
};

void multiply(const GemmBlock& block) noexcept {
  if (block.runs == 0 || block.m == 0 || block.n == 0) return;
  if (block.padding == 0 || block.segments == 0) {
    Product(block).multiply();
    return;
  }
  RowClasses classes(block);
  for (std::size_t number = 0; number < classes.count(); ++number) Product(classes.block_of(number)).multiply();
}

}  // namespace

constinit const GemmKernels amx_int8::gemm = {.mr = kMr,
                                              .nr = kNr,
                                              .kr = kKr,
                                              .products_per_cycle = 1024,
                                              .cycles_of_rows = 180,
                                              .cycles_of_area = 165,
                                              .multiplies_signed = true,
                                              .multiplies_planes = true,
                                              .loads_rows_as_tiles = true,
                                              .most_exact_terms = kMostTermsCopied,
                                              .least_columns = kLeastColumns,
                                              .tasks_of_thread = 1,
                                              .multiply = multiply};

}  // namespace dmlcpu
