// Implicit im2col: windows gathered for one tile of output pixels at a time, as the rows of gemm/gemm.h's a.
//
// k is (kernel row, kernel column, channel), so that the channels of one tap are one copy from {N, H, W, C} memory.
// Codes leave flipped as their source says, as unsigned ones for most products; see gemm.h for the flip. Taps in the
// padding read the input's zero point, whose difference from itself is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

// Whether rows are pixels of all groups, copied as they follow each other: a product of a group reads its part of them.
bool gathers_whole_pixels(const ConvolutionGeometry& geometry);

// Bytes from row to row: k_padded, or those of a whole pixel.
std::size_t gathered_row_bytes(const ConvolutionGeometry& geometry, std::size_t k_padded);

// count pixels from first on (in the order n, height, width) as rows of so many bytes, of which those from k on have
// any value. Whole pixels are gathered for the first group.
void gather_windows(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                    std::int64_t group, std::int64_t first, std::int64_t count, std::size_t k_padded,
                    std::uint8_t* rows);

}  // namespace dmlcpu
