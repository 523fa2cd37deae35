// A float32 depthwise convolution of a run of pixels whose channels are neighbours.
//
//   output[p][c] = fma(taps[t].input[p * taps[t].step + first_channel + c], filter[t][c], sum)
//                                                                          for t = 0, 1, ..., one after the other
//
// begun at bias[c], or at 0 where bias is null. float32 throughout, each step fused; the order of taps is part of the
// result. A tap in the padding is one of zeros whose step is 0.
//
// Contract: there is a tap, a pixel and a channel at least. Reads `channels` elements, from the first channel on, of
// each tap and pixel, and as many of each row of the filter and of bias; writes as many of each pixel, nothing else.
// Output overlaps no operand; no alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

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
  std::size_t output_pixel_stride;  // elements
};

using FloatDepthwiseFunction = void (*)(const FloatDepthwiseRun& run) noexcept;

struct FloatDepthwiseKernels {
  FloatDepthwiseFunction convolve;
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
