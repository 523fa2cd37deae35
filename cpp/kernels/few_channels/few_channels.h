// A convolution that has few output channels: neighbouring pixels of a row of outputs are the lanes, which a matrix
// product by panels of 16 channels (gemm/gemm.h) would leave empty for the most part.
//
//   sum[c][p]    = sum over rows r and segments s of dot4(codes(r, s, p), filter(r, s, c)) + offset[c]
//                  - filter_zero_point[c] * sum over r and s of dot4(codes(r, s, p), filter(r, s, channels))
//                                                                                                   modulo 2^32
//   output[c][p] = sat(rne(f32(sum) * multiplier[c]) + output_zero_point)
//
// codes(r, s, p) are four input channels of a pixel, at rows[r][offsets[s] + 4 * p]: a segment is a column of the
// window and a group of four channels, whose pixels are neighbours in memory (pack/pack.h gathers and interleaves them
// so). dot4 multiplies four unsigned codes by four signed ones and adds. The second line is gemm/gemm.h's, and so are
// flip, the domain of output_zero_point and a null filter_zero_point. Sums are exact modulo 2^32; no step saturates.
//
//   filter: [row][segment][channel] of four signed codes, of channels + 1: the last one's are 1 where there is an input
//           channel and 0 behind the last of them, where the others are 0 as well. Where the kernel is `widened`, four
//           codes of 16 bits, those of channels 0 and 2, then 1 and 3
//
// Contract: there is a pixel, a channel, and a segment; the codes of each segment are readable for kFewChannelsPixels
// pixels behind the last one. Writes the codes of each pixel, channels output_channel_stride bytes apart, nothing else.
// Output overlaps no operand; no alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kFewChannelsPixels = 16;

struct FewChannelsRun {
  const std::uint8_t* const* rows;
  std::size_t row_count;
  const std::size_t* offsets;  // bytes, one for each segment of a row
  std::size_t segments;        // of a row
  const std::uint8_t* filter;
  std::size_t pixels;
  std::size_t channels;
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;
  float output_zero_point;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t output_channel_stride;
};

struct FewChannelsKernels {
  // Beyond which a product is as fast, a part of one for what is besides products; and of whole tiles of pixels, whose
  // windows have many codes.
  double most_channels, most_channels_of_many;
  bool widened;  // filters have 16-bit codes
  void (*convolve)(const FewChannelsRun& run) noexcept;
};

namespace scalar {
extern const FewChannelsKernels few_channels;
}
namespace avx2 {
extern const FewChannelsKernels few_channels;
}
namespace avx_vnni {
extern const FewChannelsKernels few_channels;
}
namespace avx512_vnni {
extern const FewChannelsKernels few_channels;
}

}  // namespace dmlcpu
