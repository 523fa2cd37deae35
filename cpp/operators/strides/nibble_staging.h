// Elements of 4 bits at any stride, two in a byte, to and from bytes that hold one each: codes of the offset domain
// 0..15, flipped as kernels/nibbles/nibbles.h says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/nibbles/nibbles.h"

namespace dmlcpu {

// Elements of a tensor: packed data, and the index of each is index + i * stride.
struct NibbleRun {
  std::int64_t index, stride;
  std::size_t count;
  std::uint8_t flip;
};

// Fetches the run to count bytes.
void load_nibbles(const NibblesKernels& kernels, const void* packed, const NibbleRun& run, std::uint8_t* codes);

// The way back, saturating codes above 15. The other half of a byte of which one half is written stays, but it is
// written too: no other thread may write it at the same time.
void store_nibbles(const NibblesKernels& kernels, const std::uint8_t* codes, const NibbleRun& run, void* packed);

}  // namespace dmlcpu
