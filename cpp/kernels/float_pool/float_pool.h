// Sums, maxima and minima of windows of float32 (FLOAT_POOLING), elements of a row as lanes.
//
//   sums      output[e] = ((0 + x(0, 0)) + x(0, 1)) + ... + x(1, 0) + ..., and where there are divisors that sum over
//             divisors[e], or over the only one
//   maxima    output[e] = the same of larger, begun at -infinity
//   minima    the same of smaller, begun at infinity
//   averages of a plane
//             the same sums over their divisors, of the windows of all elements of a plane, a row and a column apart
//   largest   larger of all elements of one window in their order, begun at -infinity: the first NaN, or of the largest
//             elements, as zeros that differ in sign are equal, the last
//   smallest  the same of smaller, begun at infinity
//   pixels    the same averages, maxima or minima of as many planes as a vector has lanes
//
//   with      x(i, j) = input[i * row_step + p] where p = first + j * tap_step + e * step is in [0, length),
//                       0, -infinity or infinity where it lies beside the row
//             larger(a, b) = a where a > b or a is NaN, else b
//             smaller(a, b) = a where a < b or a is NaN, else b
//
// float32, each sum and quotient rounded, taps in their order: j runs fastest. What lies beside a row changes no sum,
// as none is ever a -0, and no maximum or minimum.
//
//   row i     | c c c | c c c | c c c | ...    of pixels of some channels, or of one: the windows of pixels that follow
//                 ^ tap_step ^                 one another are one run; tap_step is a multiple of the pixel
//
// Contract: step is 1 or 2; count elements of output are written, of each row those named are read, and of a step of 2
// what is between them in [0, length), nothing else; output overlaps no row; no alignment beyond the element's own. Of
// a single window rows * count elements are read, which do not change meanwhile or are any. Of a plane all elements are
// read and all of output written; of inside whole bytes of taps are read. Of pixels the taps are read. A sum that meets
// two NaN is one of them; which depends on the instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct FloatPoolRun {
  const float* input;
  std::size_t rows;
  std::ptrdiff_t row_step;
  std::ptrdiff_t length;
  std::ptrdiff_t first;
  std::size_t taps;
  std::ptrdiff_t tap_step;
  std::ptrdiff_t step;
  std::size_t count;
  float* output;
  const float* divisors = nullptr;  // of sums alone: one for each element
  bool divisor_repeats = false;     // one for all
};

// Rows of count elements, row_step apart.
struct FloatWindow {
  const float* input;
  std::size_t rows;
  std::ptrdiff_t row_step;
  std::size_t count;
};

// A plane without gaps, the window of whose element (y, x) begins at (y - rows_before, x - columns_before).
struct FloatPlane {
  static constexpr std::size_t kMostTaps = 8;  // in a row

  const float* input;
  std::size_t rows;
  std::size_t columns;
  std::size_t tap_rows;
  std::size_t taps;
  std::ptrdiff_t rows_before;
  std::ptrdiff_t columns_before;
  // For each tap of a row a bit for each element, the first one lowest: whether this tap of the element's window is in
  // one of the plane's columns. 0 behind the last element, up to as many as are a multiple of 16.
  const std::uint8_t* inside;
  std::size_t tap_bytes;  // from one tap's bits to the next one's
  const float* divisors;  // one for each element, or one for all
  bool divisor_repeats;
  float* output;
};

// Vectors of a float of each plane. Tap (i, j) of pixel (y, x) is the one at
// input[rows[y].first + columns[x].first + i * row_step + j * column_step].
struct FloatPixels {
  struct Taps {
    std::int32_t first;
    std::int32_t count;
  };

  const float* input;
  const Taps* rows;
  const Taps* columns;
  std::size_t row_count;
  std::size_t column_count;
  std::ptrdiff_t row_step;
  std::ptrdiff_t column_step;
  const float* divisors;  // of sums: one for each pixel, or one for all
  bool divisor_repeats;
  float* output;
};

using FloatPoolFunction = void (*)(const FloatPoolRun& run) noexcept;

struct FloatPoolFunctions {
  FloatPoolFunction runs;
  void (*pixels)(const FloatPixels& pixels) noexcept;
};

struct FloatPoolKernels {
  std::size_t lanes;  // of a vector
  FloatPoolFunctions sums;
  FloatPoolFunctions maxima;
  FloatPoolFunctions minima;
  void (*averages_of_plane)(const FloatPlane& plane) noexcept;
  float (*largest)(const FloatWindow& window) noexcept;
  float (*smallest)(const FloatWindow& window) noexcept;
};

namespace scalar {
extern const FloatPoolKernels float_pool;
}
namespace avx2 {
extern const FloatPoolKernels float_pool;
}
namespace avx512_vnni {
extern const FloatPoolKernels float_pool;
}

}  // namespace dmlcpu
