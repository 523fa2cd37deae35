// The sums of a depthwise convolution: each channel has its own small filter, so there is no matrix product to share.
//
// Taps are taken four at a time, as everywhere: four codes of one lane are neighbours in memory (pack/pack.h
// interleaves them) and meet four filter codes in one 32-bit product step.
//
//   sums[p][i] = sum over g of dot4(activations[p * pixel_step + offsets[g] + 4 * i], filter[g][i])
//
// Lanes are channels, one filter each, so the memory is {N, H, W, C}; p counts the pixels of a row.
//
// dot4 multiplies four unsigned codes by four signed ones and adds. Sums are exact modulo 2^32; no step saturates. A
// group whose taps are fewer than four has zeros in the filter, so the value of the activations there does not matter.
//
// Contract: lanes count in steps of kDepthwiseLanes: activations and filters are read, and sums are written, up to the
// next multiple. filter holds groups x round_up(lanes, kDepthwiseLanes) x 4 codes. Operands do not overlap; no
// alignment is assumed.
//
// To add an instruction set: <isa>.cpp beside this file defines dmlcpu::<isa>::depthwise, a declaration goes to the end
// of this file, one cell to kernels/dispatch.cpp and one word to cpp/CMakeLists.txt.
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
  std::int32_t* sums;
  std::size_t sums_row_stride;  // elements, at least round_up(lanes, kDepthwiseLanes)
  std::size_t pixels;
  std::size_t lanes;
};

using DepthwiseFunction = void (*)(const DepthwiseRun& run) noexcept;

struct DepthwiseKernels {
  DepthwiseFunction accumulate;
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
