// A depthwise convolution of {N, H, W, C} memory by a window of 3x3 or 5x5 taps, straight from the rows of the input.
// Each column of the window is interleaved once, in registers, for all the pixels of a row that it belongs to. Windows
// of volumes have several slices of so many taps, in as many slices of the input.
//
//   sum[y][p][c]    = sum over slices s, rows r and columns k of
//                       code(y, s, r, first_column + p * stride + k, c) * filter(s, r, k, c)
//                     + offset[c] - filter_zero_point[c] * sum over s, r and k of those codes         modulo 2^32
//   output[y][p][c] = sat(rne(f32(sum) * multiplier[c]) + output_zero_point)
//
// or, where sums is not null, the sums themselves: then these go there, and output, multiplier, output_zero_point and
// flip are not read. code(y, s, r, x, c) is rows[(y * slices + s) * window + r][x * column_step + c] ^ input_flip, or
// that of the padding where x is not in 0..columns - 1. The rest is gemm/gemm.h's: flip, the domain of
// output_zero_point, a null filter_zero_point, and that filters are signed. Sums are exact modulo 2^32; no step
// saturates.
//
// Channels come in blocks of 64 lanes: 64 channels of one pixel, 32 channels of two pixels or 16 of four, for which a
// kernel may cut a row of pixels into as many parts, of equal lengths but for the last. The last block ends with the
// last channel, so that it may have channels in common with the one before. Byte and word unpacks work within 128-bit
// quarters of a vector, and so do the packs that turn sums into codes again. In between the lanes of a block are in the
// order of the unpacks:
//
//   16 codes of a quarter     c0 c1 c2 ... c15      rows 0 to 3 interleaved: four vectors of four bytes a lane
//   vector v, quarter q, lane i of it, which is lane v * 16 + q * 4 + i of the block: channel 16 * q + 4 * v + i
//
// where q counts modulo the quarters of a pixel (4, 2 or 1). Filters and the parameters of channels are in that order:
//
//   filter:     [block][slice][group][lane] of four signed codes, the taps that window_tap() tells, 64-byte aligned
//   parameters: [block][lane]
//
// Contract: there are 32 channels at least, filter zero points are codes, and columns * column_step fits its type, as
// it does for first_column and the pixels. padding holds 64 equal codes, and is flipped as others are. Reads codes of
// columns within the input alone; writes the codes or sums of each pixel, nothing else. Output overlaps no operand;
// only the filter and partial_sums are aligned, to 64 bytes. Rows are inside, blocks outside: what the rows of a window
// have of a block is read again for the next row.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kWindowLanes = 64, kMostWindow = 5, kMostWindowSlices = 7;
inline constexpr std::size_t kLeastWindowChannels = 32;

struct WindowBlock {
  std::size_t channel, channels;  // the first one, and how many: 64, 32 or 16
};

// Functions of the layout are static: what a linker could merge might be code of an instruction set that the CPU lacks.

// The block after those that end before a channel.
static inline constexpr WindowBlock next_window_block(std::size_t channels, std::size_t end) noexcept {
  const std::size_t left = channels - end;
  const std::size_t of_block = left > 32 && channels >= 64 ? 64 : left > 16 ? 32 : 16;
  return {left < of_block ? channels - of_block : end, of_block};
}

// The channel of a lane, from the first of its block on.
static inline constexpr std::size_t window_lane_channel(std::size_t block_channels, std::size_t lane) noexcept {
  return (lane / 4 % 4 * 16 & (block_channels - 1)) + lane / 16 * 4 + lane % 4;
}

// Groups of four taps: 3 of a 3x3 window, 7 of a 5x5.
static inline constexpr std::size_t window_groups(std::size_t window) noexcept { return window == 3 ? 3 : 7; }

struct WindowTap {
  std::size_t row, column;
  bool present;
};

// The i-th tap of a group. A group is the first four rows of a column; those of row 4 are in two of neighbouring
// columns, which begin at column 0 and at column `stride`, so that the second one is the next pixel's first:
//
//   stride 1: [40 - - -] [41 42 43 44]      stride 2: [40 41 42 43] [- - 44 -]
static inline constexpr WindowTap window_tap(std::size_t window, std::size_t stride, std::size_t group,
                                             std::size_t i) noexcept {
  if (group < window) return {i, group, i < window && i < 4};
  const bool first = group == window;
  const std::size_t column = first ? i : stride + i;
  return {4, column, stride == 1 ? !first || i == 0 : first || column == 4};
}

struct DepthwiseWindowRun {
  std::size_t window;               // rows and columns: 3 or 5
  std::size_t slices;               // 1 to kMostWindowSlices
  std::size_t stride;               // of columns: 1 or 2
  const std::uint8_t* const* rows;  // `window` for each slice of each output row
  std::ptrdiff_t column_step;       // bytes
  std::ptrdiff_t first_column;      // of the first pixel's window; negative in the padding
  std::ptrdiff_t columns;           // of the input
  const std::uint8_t* padding;
  std::uint8_t input_flip;
  const std::int8_t* filter;
  std::size_t output_rows;
  std::size_t pixels;  // of an output row
  std::size_t channels;
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;
  float output_zero_point;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t output_pixel_stride, output_row_stride;  // elements
  std::int32_t* sums = nullptr;
  std::int32_t* partial_sums = nullptr;  // room for kWindowLanes of each pixel of a row, where there are more slices
};

using DepthwiseWindowFunction = void (*)(const DepthwiseWindowRun& run) noexcept;

struct DepthwiseWindowKernels {
  DepthwiseWindowFunction convolve;
};

namespace scalar {
extern const DepthwiseWindowKernels depthwise_window;
}
namespace avx2 {
extern const DepthwiseWindowKernels depthwise_window;
}
namespace avx512_vnni {
extern const DepthwiseWindowKernels depthwise_window;
}

}  // namespace dmlcpu
