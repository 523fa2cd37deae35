#include "operators/convolution/product/product_strides.h"

#include <utility>

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// Segments of a range of kernel rows and columns; a kernel row may be a single segment.
ProductSegments segments_of(const ConvolutionGeometry& geometry, const ProductCut& cut, const ProductStrides& strides,
                            IndexRange rows, IndexRange columns) {
  const TermOrder& order = cut.filter.order;
  const std::size_t columns_of_row = order.segments / as_size(divide_up(geometry.kernel_height, cut.source.cells.rows));
  ProductSegments segments;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      segments.activations.push_back(as_size(row - rows.begin) * strides.segment +
                                     as_size((column - columns.begin) * geometry.dilation_width) * strides.pixel);
      segments.filter.push_back((as_size(row) * columns_of_row + as_size(column)) * order.segment_padded *
                                cut.filter.nr);
    }
  }
  return segments;
}

}  // namespace

ProductStrides product_strides(const ConvolutionGeometry& geometry, const ProductPlan& plan) {
  // Where a row has a single pixel, the distance to the next one is that of rows or images.
  const auto pixel_stride = [&](const PlaneStrides& strides) {
    if (plan.cut.tiles.units.by_rows) return strides.w;
    return uniform_pixel_stride(strides, 1, geometry.output_height, geometry.output_width).value_or(strides.w);
  };
  ProductStrides strides{};
  strides.output_pixel = pixel_stride(geometry.output);
  if (plan.cut.source.from == ActivationsFrom::gathered) return strides;
  const std::optional<PaddedPlanes>& planes = plan.copies.planes;
  strides.image = planes ? planes->image_bytes() : as_size(geometry.input.n);
  strides.row = planes ? planes->row_bytes() : as_size(geometry.input.h);
  strides.pixel = planes ? planes->cell_bytes() : as_size(pixel_stride(geometry.input));
  const bool has_windows = plan.cut.source.cells.are_windows;
  strides.output_row = has_windows ? planes->output_row_bytes() : as_size(geometry.stride_height) * strides.row;
  strides.segment = has_windows ? planes->segment_bytes() : as_size(geometry.dilation_height) * strides.row;
  strides.output_column = has_windows ? strides.pixel : as_size(geometry.stride_width) * strides.pixel;
  return strides;
}

std::vector<ProductSegments> product_segments(const ConvolutionGeometry& geometry, const ProductCut& cut,
                                              const ProductStrides& strides) {
  if (cut.source.from == ActivationsFrom::gathered) return {{.activations = {0}, .filter = {0}, .summed = {}}};
  std::vector<ProductSegments> segments;
  for (const ProductRegion& region : cut.regions) {
    segments.push_back(segments_of(geometry, cut, strides, region.rows.taps, region.columns.taps));
  }
  if (!segments.empty()) return segments;
  const std::int64_t rows_of_cell = cut.source.cells.rows, rows = divide_up(geometry.kernel_height, rows_of_cell);
  ProductSegments all =
      segments_of(geometry, cut, strides, {0, rows}, {0, static_cast<std::int64_t>(cut.filter.order.segments) / rows});
  for (std::int64_t row = 0; rows_of_cell > 1 && row < geometry.kernel_height; ++row) {
    all.summed.push_back(as_size(row / rows_of_cell) * strides.segment +
                         as_size(row % rows_of_cell) * terms_of_row(geometry));
  }
  segments.push_back(std::move(all));
  return segments;
}

}  // namespace dmlcpu
