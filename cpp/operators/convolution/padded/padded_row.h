// A row of a padded input, made for what reads whole rows of it in place of windows that are gathered: padded planes,
// the strips of depthwise and grouped convolutions, the rows of Winograd's tiles.
//
// Codes leave flipped as their source says, as unsigned ones for most products (kernels/gemm/gemm.h). The padding is
// the input's zero point, whose difference from itself is 0.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/index_range.h"

namespace dmlcpu {

// Which of the columns [first, first + count) of one row of the padded input are the input's, counted from first.
IndexRange columns_inside(const ConvolutionGeometry& geometry, std::int64_t padded_row, std::int64_t first,
                          std::int64_t count);

// Columns [first, first + count) of one row of the padded input, its channels together.
void pack_padded_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     std::int64_t image, std::int64_t padded_row, std::int64_t first, std::int64_t count,
                     std::uint8_t* target);

}  // namespace dmlcpu
