// A convolution of {N, H, W, C} memory whose groups have few channels, as many in as out: 4, 8 or 16. The matrix
// product of one group would be no wider than that, so here the groups are side by side in the lanes of a vector.
//
//   sum[p][c]    = sum over taps k and channels i of c's group of codes(p, k, i) * filter(c, k, i) + offset[c]
//                  - filter_zero_point[c] * sum over k and i of codes(p, k, i)                       modulo 2^32
//   output[p][c] = sat(rne(f32(sum) * multiplier[c]) + output_zero_point)
//
// or, where sums is not null, the sums themselves: then these go there, output_pixel_stride elements apart, and output,
// multiplier, output_zero_point and flip are not read.
//
// codes(p, k, i) stand at activations[p * pixel_step + offsets[k] + i]; p counts the pixels of a row. The second line
// is gemm/gemm.h's, and so are flip, the domain of output_zero_point and a null filter_zero_point. Sums are exact
// modulo 2^32; no step saturates.
//
// A lane is four neighbouring channels, a block as many lanes as the kernel's vector has. Lane l makes the output
// channels 4 * l + t, t = 0..3, of its block, each in an accumulator of its own. A group is group_lanes = 1, 2 or 4
// lanes, each of which has to meet the input channels of all: in exchange e < group_lanes, lane l reads those of lane
// l ^ e. So one vector of the filter is, for a block, tap, exchange and t,
//
//   [lane 0] [lane 1] ... [lane l: filter(4 * l + t, tap, i) of the four channels i of lane l ^ e] ...
//
//   filter:     [block][tap][exchange][t] vectors, 64-byte aligned. Four signed codes a lane; where the kernel is
//               `widened`, each vector is two of 16-bit codes: those of channels 0 and 2 of each lane, then 1 and 3.
//               But not if all pairs fit: if neither the positive nor the negative ones of the codes of channels 0 and
//               1 of a lane, or 2 and 3, add up to more than 128, so that their products do not saturate in 16 bits
//   parameters: [block][t][lane], so channel c, in lane l = c / 4, is at ((l / lanes) * 4 + c % 4) * lanes + l % lanes
//
// with zeros for the channels behind the last.
//
// Contract: there is a tap; group_lanes are at most the kernel's most_group_lanes; channels are a multiple of 4 *
// group_lanes; the activations of a pixel are read up to the next multiple of 4 * lanes. Writes the codes, or the
// sums, of each pixel, output_pixel_stride of them apart, nothing else. Output overlaps no operand; only the filter is
// aligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// Channels of a lane, and products of a vector of codes.
inline constexpr std::size_t kGroupedLaneChannels = 4;

struct GroupedRun {
  const std::uint8_t* activations;
  std::size_t pixel_step;      // bytes
  const std::size_t* offsets;  // bytes, one for each tap
  std::size_t taps;
  std::size_t group_lanes;
  const std::uint8_t* filter;
  bool pairs_fit;  // of the filter; kernels that are not widened do not ask
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

using GroupedFunction = void (*)(const GroupedRun& run) noexcept;

struct GroupedKernels {
  std::size_t lanes;  // of a block, a multiple of 4
  // 4, or 2 where a block would have two groups of 16 channels, which take no longer as products.
  std::size_t most_group_lanes;
  std::size_t pixels_of_filter;  // that share the loads of a filter
  bool widened;                  // filters have 16-bit codes, unless all pairs fit
  // How many groups of 1 or 2 lanes, and of 4, take as long as matrix products as a block does, full or not.
  double groups_of_block, groups_of_block_by_four;
  GroupedFunction convolve;
};

namespace scalar {
extern const GroupedKernels grouped;
}
namespace avx2 {
extern const GroupedKernels grouped;
}
namespace avx512_vnni {
extern const GroupedKernels grouped;
}

}  // namespace dmlcpu
