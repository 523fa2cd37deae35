// The part of a convolution's output that a task of a ProductCut makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/product/product_plan.h"

namespace dmlcpu {

// Output pixels, as the product's runs of rows: parts of output rows, or in some regions of output columns.
struct ProductTile {
  std::size_t region;  // of the cut; 0 where it has none
  std::int64_t group;
  std::int64_t image, row, column;  // of the first pixel
  std::int64_t runs, m;
  std::size_t output_run_stride, output_row_stride;
  std::int64_t first_block, end_block;

  std::int64_t pixels() const { return runs * m; }
};

// That of a task, for its first group; output_pixel_stride counts elements within an output row.
ProductTile product_tile(const ConvolutionGeometry& geometry, const ProductCut& cut, std::int64_t output_pixel_stride,
                         std::int64_t task) noexcept;

}  // namespace dmlcpu
