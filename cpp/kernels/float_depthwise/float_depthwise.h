// A float32 depthwise convolution of a run of pixels whose channels are neighbours.
//
// convolve() is told where each tap lies:
//
//   output[p][c] = fma(taps[t].input[p * taps[t].step + first_channel + c], filter[t][c], sum)
//                                                                          for t = 0, 1, ..., one after the other
//
// convolve_windows() is told where the rows of an image lie, along which windows of neighbouring taps move by one pixel
// or two. The same sums, of rows * columns taps:
//
//   taps[i * columns + j].input[p * step + c] = image_rows[i][(first_column + p * stride + j) * image_step + c]
//
// or 0 where image_rows[i] is null or that column is none of the image's.
//
// Sums begin at bias[c], or at 0 where bias is null. float32 throughout, each step fused; the order of taps is part of
// the result. A tap in the padding is one of zeros whose step is 0. Where there are bounds, sums that are done are
// clipped to them, as clip of float_functions.h has it with the lower one as alpha and the upper one as beta: relu is 0
// and infinity, to the bit.
//
// Contract: there is a tap, a pixel and a channel at least; stride is 1 or 2, columns 3, 5, 7 or 9. Reads `channels`
// elements, from the first channel on, of each tap and pixel, or of pixels of the image's rows, and as many of each row
// of the filter and of bias; writes as many of each pixel, nothing else. Output overlaps no operand; no alignment
// beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct FloatBounds {
  float lower, upper;
};

struct FloatDepthwiseTap {
  const float* input;  // the first pixel's
  std::size_t step;    // elements from pixel to pixel
};

struct FloatDepthwiseRun {
  const FloatDepthwiseTap* taps;
  std::size_t tap_count;
  const float* filter;
  std::size_t filter_row_stride;  // elements
  const float* bias;
  std::size_t pixels;
  std::size_t first_channel;  // of the taps; filter, bias and output begin with it
  std::size_t channels;
  float* output;
  std::size_t output_pixel_stride;      // elements
  const FloatBounds* bounds = nullptr;  // or null for none
};

struct FloatDepthwiseWindows {
  const float* const* image_rows;  // each one's first pixel
  std::size_t image_columns;
  std::size_t image_step;       // elements from pixel to pixel
  std::ptrdiff_t first_column;  // of the image, of the first pixel's first tap
  std::size_t stride;           // columns of the image from pixel to pixel
  std::size_t rows, columns;    // of a window
  const float* filter;
  std::size_t filter_row_stride;  // elements
  const float* bias;
  std::size_t pixels;
  std::size_t first_channel;  // of the image; filter, bias and output begin with it
  std::size_t channels;
  float* output;
  std::size_t output_pixel_stride;      // elements
  const FloatBounds* bounds = nullptr;  // or null for none
};

using FloatDepthwiseFunction = void (*)(const FloatDepthwiseRun& run) noexcept;
using FloatDepthwiseWindowsFunction = void (*)(const FloatDepthwiseWindows& run) noexcept;

struct FloatDepthwiseKernels {
  FloatDepthwiseFunction convolve;
  FloatDepthwiseWindowsFunction convolve_windows;
};

namespace scalar {
extern const FloatDepthwiseKernels float_depthwise;
}
namespace avx2 {
extern const FloatDepthwiseKernels float_depthwise;
}
namespace avx512_vnni {
extern const FloatDepthwiseKernels float_depthwise;
}

}  // namespace dmlcpu
