// Where the activations of a product come from: the input as it stands, a padded copy of it, or windows that are
// gathered; and with which kernels it is faster. Chosen by what the input's memory allows and by estimates of cycles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/product/packed_filter.h"

namespace dmlcpu {

// Where a tile's activations come from.
enum class ActivationsFrom : std::uint8_t {
  input,     // the input itself, whose windows are read where they stand
  planes,    // the same of a padded copy, or of a plain one where taps in the padding are left out
  gathered,  // each pixel's window, tap by tap: what fits neither
};

struct ProductSource {
  ActivationsFrom from;
  PlaneCells cells;     // of planes
  std::size_t padding;  // of segments, as gemm.h has it
  bool gathers_end;  // what is read in place for the last pixels would reach beyond the input: their tile is gathered
  // In words, why windows are not read where they stand, and why no copy is made; null where they are, or one is.
  const char* obstacle;
  const char* obstacle_to_copy;
};

// Pixels of a tile, unless more are read and written in place.
inline constexpr std::int64_t kMostTilePixels = 256;

// Whether so many images are one flat stretch, of the output and of an input that is read in place.
bool is_uniform(const ConvolutionGeometry& geometry, ActivationsFrom source, std::int64_t images);

// The order of terms that are read in place: kernel rows whose codes are neighbours, or taps where those of a row are
// not.
TermOrder order_in_place(const ConvolutionGeometry& geometry, const GemmKernels& kernels);

// Why the input does not have the segments of windows as whole steps of codes that are neighbours and that products
// read as they are: flip is 0 for these. Null if it has.
const char* obstacle_in_codes(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip);

struct OrderedSource {
  ProductSource source;
  TermOrder order;  // of the terms as they are read, and packed
};

// flip is 0 where codes are read as they are. Whole lines of an input that is not aligned begin anywhere.
OrderedSource choose_source(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                            bool input_is_aligned);

// The target, with the row of kernels whose product is faster by estimate.
ExecutionTarget target_of_products(const ConvolutionGeometry& geometry, ExecutionTarget target);

}  // namespace dmlcpu
