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

// count pixels from first on (in the order n, height, width) as rows of k_padded bytes; bytes from k on have any value.
void gather_windows(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                    std::int64_t group, std::int64_t first, std::int64_t count, std::size_t k_padded,
                    std::uint8_t* rows);

}  // namespace dmlcpu
