// Estimates of cycles, for choices among ways of one product: by the kernels' own figures, to which they were fitted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "operators/convolution/convolution_geometry.h"

namespace dmlcpu {

inline constexpr double kEstimatedRows = 32;

// Of so many rows of a product of k terms; so many cache lines are copied for each of them while it is made.
double cycles_of_rows(const GemmKernels& kernels, std::size_t k, std::int64_t columns, std::size_t copied_lines);

// Rows that take as long as a run of m: it is cut into equal parts of at most mr, of which one of less than half of mr
// takes as long as a half, since the filter's codes are loaded for it all the same.
double rows_in_time(const GemmKernels& kernels, std::int64_t m);

// Of runs of m rows in products of k terms, for all channels of the output.
double cycles_of_runs(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t runs,
                      std::int64_t m, double k);

// To fetch k terms of the filter for one tile if its filter_k terms exceed half of the level-2 cache, otherwise 0.
// Fetching overlaps multiplying, so a tile takes the larger of this and cycles_of_runs().
double cycles_of_fetching(const ConvolutionGeometry& geometry, const GemmKernels& kernels, double filter_k, double k);

// To gather a stretch of neighbouring codes of a window, which may lie in the padding, and a pixel, which does not.
inline constexpr double kCyclesOfStretch = 40.0, kCyclesOfPixel = 8.0;

// To gather a window of k terms, whose stretches take so many cycles; and all windows of an image.
double cycles_of_gathering(double of_stretches, double k);
double cycles_of_gathering(const ConvolutionGeometry& geometry, double of_stretches, double k);

}  // namespace dmlcpu
