// A depthwise convolution of planes, {N, C, H, W} memory. Lanes are outputs that follow each other in a plane: of a row
// of all their windows 64 bytes are loaded, and a permutation of bytes brings each lane its taps, four at a time.
//
//   sum[c][o]    = sum over rows r and columns k of code(c, o, r, k) * filter[c][r][k] + offset[c]
//                  - filter_zero_point[c] * sum over r and k of those codes                         modulo 2^32
//   output[c][o] = sat(rne(f32(sum) * multiplier[c]) + output_zero_point)
//
// The rest is gemm/gemm.h's: flip, the domain of output_zero_point, a null filter_zero_point, and that filters are
// signed. Sums are exact modulo 2^32; no step saturates.
//
// Outputs are cut into blocks of up to 16 lanes, of which one load has all taps of a row: neighbours of one row of
// outputs, or of some, where these are short. Which byte is which tap is the same in all channels, and in all rows of
// the windows; whether it is one, or lies in the padding and is its code, is the same in all channels:
//
//   3x3 with padding on rows of 7; lane 7 is the first output of the next row
//     load      -- b0 b1 b2 b3 ...     row 1 of the windows, at `first` + row_step; b0 begins the plane
//     order     [0 1 2 x] [1 2 3 x] ... [6 7 8 x]   [7 8 9 x] ...
//     inside    [0 1 1 0] [1 1 1 0] ... [1 1 0 0]   [0 1 1 0] ...
//
// A block of more than one step goes down its columns: each step moves the windows by row_stride rows, so that a row's
// bytes are brought to their lanes once for all outputs whose windows have it:
//
//   3x3, row_stride 1    rows 0  1  2  3  4        3x3, row_stride 2    rows 0  1  2  3  4
//     output 0                a  b  c                  output 0               a  b  c
//     output 1                   a  b  c               output 1                     a  b  c
//     output 2                      a  b  c
//
// Contract: reads the bytes that are inside, and any others of `readable`, between planes as well; writes the outputs
// of the blocks, nothing else. Output overlaps no operand; orders are 64-byte aligned. No output is in two blocks,
// which threads may divide.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kPlaneLanes = 16, kPlaneBytes = 64, kPlaneSteps = 16;
// Channels that kernels take at a time, and as many streams as they read of blocks of one step: what threads divide by.
inline constexpr std::size_t kPlaneChannels = 4, kPlaneTileChannels = 16;

// Static: what a linker could merge might be code of an instruction set that the CPU lacks.
static inline constexpr std::size_t plane_groups(std::size_t columns) noexcept { return (columns + 3) / 4; }

// Windows whose rows a kernel adds to several outputs, so that blocks of many steps pay.
static inline constexpr bool plane_windows_descend(std::size_t rows, std::size_t columns,
                                                   std::size_t row_stride) noexcept {
  return rows == columns && (rows == 3 || rows == 5) && (row_stride == 1 || row_stride == 2);
}

struct PlaneBlock {
  std::ptrdiff_t first;  // of the bytes of the windows' first row, from the beginning of a plane
  std::size_t order;     // where its own begins in bytes, a multiple of 64; other blocks may have it as well
  std::size_t inside;    // the first of its masks, which other blocks may have as well
  std::size_t output;    // of lane 0 in the first step
  std::size_t lanes;     // 1 .. kPlaneLanes neighbours
  std::size_t steps;     // 1 .. kPlaneSteps; 1 unless plane_windows_descend
};

struct DepthwisePlanesRun {
  std::size_t rows, columns;   // of a window; a row has groups of four columns
  std::ptrdiff_t row_step;     // bytes from a row of a window to the next
  std::size_t row_stride;      // rows from a step's windows to the next one's if these descend; 0 if steps are all 1
  std::ptrdiff_t output_step;  // bytes from a step's outputs to the next one's
  const PlaneBlock* blocks;
  std::size_t block_count;
  const std::uint8_t* orders;   // [group][64] of a block: the byte of a lane's tap, four of each lane
  const std::uint64_t* inside;  // [row of all its windows][group]: a bit for each of these
  const std::uint8_t* input;    // plane 0
  std::ptrdiff_t input_plane_step;
  const std::uint8_t *readable, *readable_end;  // what may be read
  std::uint8_t input_flip;
  std::uint8_t padding;  // its code, flipped
  std::size_t channels;
  const std::int8_t* filter;  // [channel][row][group] of four columns, zeros behind the last one
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;
  float output_zero_point;
  std::uint8_t flip;
  std::uint8_t* output;
  std::ptrdiff_t output_plane_step;
};

using DepthwisePlanesFunction = void (*)(const DepthwisePlanesRun& run) noexcept;

struct DepthwisePlanesKernels {
  DepthwisePlanesFunction convolve;
};

namespace scalar {
extern const DepthwisePlanesKernels depthwise_planes;
}
namespace avx512_vbmi {
extern const DepthwisePlanesKernels depthwise_planes;
}

}  // namespace dmlcpu
