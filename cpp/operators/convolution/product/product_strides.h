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
  std::size_t image, row, pixel;          // from one of the input, or of the planes, to the next
  std::size_t output_row, output_column;  // from the windows of one to those of the next
  std::size_t segment;                    // from a segment of a window to that a row below
  std::int64_t output_pixel;              // elements, within an output row
};

ProductStrides product_strides(const ConvolutionGeometry& geometry, const ProductPlan& plan);

// Where the segments of a product stand: offsets from a window's beginning, and in a panel of the packed filter.
struct ProductSegments {
  std::vector<std::size_t> activations, filter;
  // Of the single rows of a window, where a segment has several of them and the last one more than the window: the
  // terms that are too many are no part of its sum. Empty where whole segments are summed.
  std::vector<std::size_t> summed;
};

// Of each region, or of the only product.
std::vector<ProductSegments> product_segments(const ConvolutionGeometry& geometry, const ProductCut& cut,
                                              const ProductStrides& strides);

// Codes of a window's row.
inline std::size_t terms_of_row(const ConvolutionGeometry& geometry) {
  return as_size(geometry.kernel_width * geometry.group_input_channels());
}

}  // namespace dmlcpu
