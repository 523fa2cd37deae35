// Moves 8-bit codes into the layouts that products read, flipping the top bit on the way where a code changes its
// signedness (flip is 0x00 or 0x80), and sums operands for the correction of a zero point.
//
//   copy         output[i] = input[i] ^ flip
//   stream       output[i] = input[i], past the caches where the instruction set can: a caller that hands the output to
//                another thread puts a full fence between
//   spread       output[i * output_step + r * piece_bytes + j] = inputs[r][i * input_step + j]
//                pieces of some rows, which may overlap, one after the other in cells; bytes of a cell behind them get
//                any value
//   interleave   output[i * 4 + r] = rows[r][i]
//                four rows become one row of groups of four, as depthwise/depthwise.h reads them
//   interleave_panels
//                output[i / nr * panel_stride + i % nr * 4 + r] = rows[r][i] ^ flip
//                four rows of k of a matrix become groups in panels of nr columns, as gemm/gemm.h reads them
//   gather_groups
//                output[k / 4 * group_stride + column * 4 + k % 4] = columns[column * column_stride + k] ^ flip
//                the same of a matrix whose columns are what is neighbours; k up to a multiple of 4 are zeros. With a
//                flip of 0 a transposition of 32-bit elements
//   transpose    output[column * output_row_stride + row] = input[row * input_row_stride + column] ^ flip
//                between {N, C, H, W} memory, where rows are channels, and {N, H, W, C}, where they are pixels
//   sum_rows     sums[row] = sum over segments and k of a[row][segment][k]
//                a run of the row operand of gemm.h, codes unsigned or signed
//
// Sums are exact: 255 * k fits int32 for every k below 2^23, and wrap beyond, as all accumulation here does.
//
// Contract: reads and writes what the formulas name, some of it several times, and of the cells that it spreads to all;
// operands do not overlap; no alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct SpreadPieces {
  const std::uint8_t* const* inputs;
  std::size_t rows;
  std::size_t input_step;
  std::size_t count;
  std::size_t piece_bytes;
  std::uint8_t* output;
  std::size_t output_step;  // at least rows * piece_bytes
};

struct InterleaveRun {
  const std::uint8_t* rows[4];
  std::size_t count;
  std::uint8_t* output;
};

struct PanelRun {
  const std::uint8_t* rows[4];
  std::size_t count;
  std::uint8_t flip;
  std::size_t nr;            // columns of a panel, a multiple of 16
  std::size_t panel_stride;  // bytes
  std::uint8_t* output;
};

struct GroupBlock {
  const std::uint8_t* columns;
  std::size_t column_stride;
  std::size_t count;  // of columns
  std::size_t k;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t group_stride;  // bytes
};

struct TransposeBlock {
  const std::uint8_t* input;
  std::size_t input_row_stride;
  std::size_t rows;
  std::size_t columns;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t output_row_stride;
};

struct SummedRows {
  const std::uint8_t* a;
  std::size_t a_row_stride;
  const std::size_t* a_offsets;  // bytes, one for each segment
  std::size_t segments = 1;
  std::size_t m;
  std::size_t k;  // of one segment
  bool a_is_signed = false;
};

struct PackKernels {
  void (*copy)(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept;
  void (*stream)(const std::uint8_t* input, std::size_t count, std::uint8_t* output) noexcept;
  void (*spread)(const SpreadPieces& spread) noexcept;
  void (*interleave)(const InterleaveRun& run) noexcept;
  void (*interleave_panels)(const PanelRun& run) noexcept;
  void (*gather_groups)(const GroupBlock& block) noexcept;
  void (*transpose)(const TransposeBlock& block) noexcept;
  void (*sum_rows)(const SummedRows& rows, std::int32_t* sums) noexcept;
};

namespace scalar {
extern const PackKernels pack;
}
namespace avx2 {
extern const PackKernels pack;
}
namespace avx512_vnni {
extern const PackKernels pack;
}

}  // namespace dmlcpu
