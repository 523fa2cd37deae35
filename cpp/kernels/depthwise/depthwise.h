// A depthwise convolution of {N, H, W, C} memory: each channel has its own small filter, so there is no matrix product
// to share. Taps are taken four at a time: four codes of one channel are neighbours in memory (pack/pack.h interleaves
// them) and meet four filter codes in one 32-bit product step.
//
//   sum[p][c]    = sum over g of dot4(codes(p, g, c), filter[g][c]) + offset[c]
//                  - filter_zero_point[c] * sum over g of dot4(codes(p, g, c), taps[g])              modulo 2^32
//   output[p][c] = sat(rne(f32(sum) * multiplier[c]) + output_zero_point)
//
// or, where sums is not null, the sums themselves: then these go there, and output, multiplier, output_zero_point and
// flip are not read.
//
// codes(p, g, c) stand at activations[p * pixel_step + offsets[g] + 4 * c]; p counts the pixels of a row, c channels.
// dot4 multiplies four unsigned codes by four signed ones and adds. A group that has fewer than four taps has zeros in
// the filter and in taps, which is 1 elsewhere. The second line is gemm/gemm.h's, and so are flip, the domain of
// output_zero_point and a null filter_zero_point. Sums are exact modulo 2^32; no step saturates.
//
// Contract: channels count in steps of kDepthwiseLanes: activations, filters and the parameters of channels are read up
// to the next multiple; filter holds groups x round_up(channels, kDepthwiseLanes) x 4 codes, taps groups x 4. Writes
// the codes or sums of each pixel, output_pixel_stride elements apart, nothing else. Output overlaps no operand; no
// alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kDepthwiseLanes = 16;

struct DepthwiseRun {
  const std::uint8_t* activations;
  std::size_t pixel_step;      // bytes
  const std::size_t* offsets;  // bytes, one for each group
  std::size_t groups;
  const std::int8_t* filter;
  const std::int8_t* taps;
  std::size_t pixels;
  std::size_t channels;
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;
  float output_zero_point;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t output_pixel_stride;
  std::int32_t* sums = nullptr;
};

using DepthwiseFunction = void (*)(const DepthwiseRun& run) noexcept;

struct DepthwiseKernels {
  DepthwiseFunction convolve;
};

namespace scalar {
extern const DepthwiseKernels depthwise;
}
namespace avx2 {
extern const DepthwiseKernels depthwise;
}
namespace avx512_vnni {
extern const DepthwiseKernels depthwise;
}

}  // namespace dmlcpu
