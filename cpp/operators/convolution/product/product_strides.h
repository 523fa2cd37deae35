// How the operands of a convolution's products lie in memory: activations in the input or in its planes, with the
// filter's segments that meet them, and the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/product/product_plan.h"
#include "operators/sizes.h"

namespace dmlcpu {

// All but the last in bytes, and 0 where activations are gathered.
struct ProductStrides {
  std::size_t image, row, pixel, group;   // from one of the input, or of the planes, to the next
  std::size_t output_row, output_column;  // from the windows of one to those of the next
  std::size_t segment;                    // from a segment of a window to that a row below
  std::int64_t output_pixel;              // elements, within an output row
};

ProductStrides product_strides(const ConvolutionGeometry& geometry, const ProductPlan& plan);

// Where the segments of a product stand: offsets from a window's beginning, and in a panel of the packed filter.
struct ProductSegments {
  std::vector<std::size_t> activations, filter;
  // Where groups are joined, of the taps of a window, whose sums are of one group. Else of its single rows, where a
  // segment has several of them and the last one more than the window: the terms that are too many are no part of its
  // sum. Empty where segments are summed, of regions always.
  std::vector<std::size_t> summed;
  // Of each, where a segment of the product has so many.
  std::size_t summed_terms(const ConvolutionGeometry& geometry, std::size_t terms_of_segment) const;
};

// Of each region, or of the only product.
std::vector<ProductSegments> product_segments(const ConvolutionGeometry& geometry, const ProductCut& cut,
                                              const ProductStrides& strides);

}  // namespace dmlcpu
