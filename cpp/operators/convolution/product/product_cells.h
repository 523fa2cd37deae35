// How windows stand in the padded planes that a product reads: as cells that begin at whole steps of k, where a step is
// a whole number of cache lines, since rows that cross lines are read at half the speed. Chosen by an estimate of what
// copying and multiplying cost together:
//
//   cells                             copied for a pixel of the output      terms for a 3x3 filter of 16 or 32 channels
//   pixels                            stride x stride pixels                9 x 64     9 x 64
//   a window's rows                   stride of its rows                    3 x 64     3 x 128
//   two or more of them (f)           f of its rows                         2 x 128, 1 x 192
//   pixels without gaps               stride x stride pixels                3 x 64     3 x 128
//
// Pixels without gaps are copied by the kernel, unless every window or every second one begins at the same place of a
// line: these are read from the beginning of the line on (amx_row_classes.inl.h), and rows have room for a few pixels
// more then.
#pragma once

#include <cstddef>

#include "kernels/gemm/gemm.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/product/packed_filter.h"

namespace dmlcpu {

struct ProductCells {
  PlaneCells cells;
  TermOrder order;
  std::size_t padding;  // as gemm.h has it
  double cycles;        // estimated, of 32 pixels of the output
};

// Whether pixels that follow each other without gaps are no whole steps of the kernel, of whole lines.
bool needs_cells(const ConvolutionGeometry& geometry, const GemmKernels& kernels);

// A plan keeps a table of the segments.
inline constexpr std::size_t kMostSegments = 1 << 12;

// The best by estimate, of not too many segments and within memory if there are such.
ProductCells choose_cells(const ConvolutionGeometry& geometry, const GemmKernels& kernels);

// Of several groups, whose terms are taps: pixels in which each group's channels begin at a whole step, where the copy
// takes less time by estimate than the kernel's own copies of rows that begin anywhere, else pixels without gaps.
PlaneCells cells_of_groups(const ConvolutionGeometry& geometry, const GemmKernels& kernels);

}  // namespace dmlcpu
