#include "operators/matrix/matrix_packing.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kGroup = 4;  // k of one 32-bit group

// Rows of neighbouring codes: four of them are interleaved at a time, some columns at a time.
void pack_rows_of_right(const PackKernels& kernels, const StridedCodes& b, const BlockRange& block, std::size_t nr,
                        std::size_t panel_bytes, std::uint8_t* panels) {
  constexpr std::size_t kColumns = 8 * kMostPanelColumns;
  alignas(64) std::uint8_t zeros[kColumns];
  std::memset(zeros, b.flip, sizeof(zeros));  // zeros once they are flipped
  for (std::size_t column = 0; column < as_size(block.columns); column += kColumns) {
    const std::uint8_t* source =
        b.data + block.first_row * b.row_stride + block.first_column + static_cast<std::int64_t>(column);
    for (std::int64_t k = 0; k < block.rows; k += kGroup) {
      PanelRun run = {.rows = {zeros, zeros, zeros, zeros},
                      .count = std::min(kColumns, as_size(block.columns) - column),
                      .flip = b.flip,
                      .nr = nr,
                      .panel_stride = panel_bytes,
                      .output = panels + column / nr * panel_bytes + as_size(k) * nr};
      for (std::int64_t i = 0; i < std::min<std::int64_t>(kGroup, block.rows - k); ++i) {
        run.rows[i] = source + (k + i) * b.row_stride;
      }
      kernels.interleave_panels(run);
    }
  }
}

// Columns of neighbouring codes: a panel at a time.
void pack_columns_of_right(const PackKernels& kernels, const StridedCodes& b, const BlockRange& block, std::size_t nr,
                           std::size_t panel_bytes, std::uint8_t* panels) {
  const std::uint8_t* source = b.data + block.first_row + block.first_column * b.column_stride;
  for (std::size_t column = 0; column < as_size(block.columns); column += nr, panels += panel_bytes) {
    kernels.gather_groups({.columns = source + static_cast<std::int64_t>(column) * b.column_stride,
                           .column_stride = as_size(b.column_stride),
                           .count = std::min(nr, as_size(block.columns) - column),
                           .k = as_size(block.rows),
                           .flip = b.flip,
                           .output = panels,
                           .group_stride = nr * kGroup});
  }
}

// Codes of any strides: stretches of a column are copied, then taken apart.
void pack_elements_of_right(const PackKernels& kernels, const StridedCodes& b, const BlockRange& block, std::size_t nr,
                            std::size_t panel_bytes, std::uint8_t* panels) {
  // At worst each code of a stretch is in a cache line of its own. 256 lines are 16 KiB, half of a level-1 cache: they
  // are still there when the next columns read the codes beside them.
  constexpr std::int64_t kStretch = 256;
  alignas(64) std::uint8_t codes[kStretch];
  for (std::int64_t k = 0; k < block.rows; k += kStretch) {
    const std::int64_t count = std::min(kStretch, block.rows - k);
    const std::size_t padded = round_up(as_size(count), kGroup);
    for (std::int64_t column = 0; column < block.columns; ++column) {
      const std::uint8_t* source =
          b.data + (block.first_row + k) * b.row_stride + (block.first_column + column) * b.column_stride;
      copy_codes(kernels, source, b.row_stride, count, b.flip, codes);
      std::memset(codes + count, 0, padded - as_size(count));
      std::uint8_t* target =
          panels + as_size(column) / nr * panel_bytes + as_size(column) % nr * kGroup + as_size(k) * nr;
      for (std::size_t i = 0; i < padded; i += kGroup) std::memcpy(target + i * nr, codes + i, kGroup);
    }
  }
}

}  // namespace

void pack_left(const PackKernels& kernels, const StridedCodes& a, const BlockRange& block, std::size_t row_bytes,
               std::uint8_t* rows) {
  const std::uint8_t* source = a.data + block.first_row * a.row_stride + block.first_column * a.column_stride;
  if (a.column_stride != 1 && a.row_stride == 1) {
    kernels.transpose({.input = source,
                       .input_row_stride = as_size(a.column_stride),
                       .rows = as_size(block.columns),
                       .columns = as_size(block.rows),
                       .flip = a.flip,
                       .output = rows,
                       .output_row_stride = row_bytes});
    return;
  }
  for (std::int64_t row = 0; row < block.rows; ++row, source += a.row_stride, rows += row_bytes) {
    copy_codes(kernels, source, a.column_stride, block.columns, a.flip, rows);
  }
}

void pack_right(const PackKernels& kernels, const StridedCodes& b, const BlockRange& block, std::size_t nr,
                std::size_t k_padded, std::uint8_t* panels) {
  const std::size_t columns = as_size(block.columns), panel_bytes = k_padded * nr;
  const std::size_t k_of_groups = round_up(as_size(block.rows), kGroup);
  if (columns % nr != 0) std::memset(panels + columns / nr * panel_bytes, 0, panel_bytes);
  for (std::size_t panel = 0; panel < columns / nr; ++panel) {
    std::memset(panels + panel * panel_bytes + k_of_groups * nr, 0, (k_padded - k_of_groups) * nr);
  }
  const auto pack = b.column_stride == 1 ? pack_rows_of_right
                    : b.row_stride == 1  ? pack_columns_of_right
                                         : pack_elements_of_right;
  pack(kernels, b, block, nr, panel_bytes, panels);
}

}  // namespace dmlcpu
