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

// Of the taps of a window, each where its first channel stands.
std::vector<std::size_t> places_of_taps(const ConvolutionGeometry& geometry, const ProductCut& cut,
                                        const ProductStrides& strides) {
  const PlaneCells& cells = cut.source.cells;
  const bool is_whole = cut.source.from == ActivationsFrom::gathered;
  const std::int64_t channels = geometry.group_input_channels();
  const std::int64_t rows_at_once = is_whole ? geometry.kernel_height : cells.rows;
  const std::size_t column_step =
      is_whole || cells.are_windows ? as_size(channels) : as_size(geometry.dilation_width) * strides.pixel;
  std::vector<std::size_t> places;
  for (std::int64_t row = 0; row < geometry.kernel_height; ++row) {
    const std::size_t of_row =
        as_size(row / rows_at_once) * strides.segment + as_size(row % rows_at_once * geometry.kernel_width * channels);
    for (std::int64_t column = 0; column < geometry.kernel_width; ++column) {
      places.push_back(of_row + as_size(column) * column_step);
    }
  }
  return places;
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
  const PlaneCells& cells = plan.cut.source.cells;
  strides.group = as_size(cells.pieces > 1 ? cells.bytes / cells.pieces : geometry.group_input_channels());
  const bool has_windows = cells.are_windows;
  strides.output_row = has_windows ? planes->output_row_bytes() : as_size(geometry.stride_height) * strides.row;
  strides.segment = has_windows ? planes->segment_bytes() : as_size(geometry.dilation_height) * strides.row;
  strides.output_column = has_windows ? strides.pixel : as_size(geometry.stride_width) * strides.pixel;
  return strides;
}

std::size_t ProductSegments::summed_terms(const ConvolutionGeometry& geometry, std::size_t terms_of_segment) const {
  if (geometry.joined_groups > 1) return as_size(geometry.filter_input_channels());
  return summed.empty() ? terms_of_segment : as_size(geometry.kernel_width * geometry.group_input_channels());
}

std::vector<ProductSegments> product_segments(const ConvolutionGeometry& geometry, const ProductCut& cut,
                                              const ProductStrides& strides) {
  const bool has_joined_groups = geometry.joined_groups > 1 && geometry.has_filter_zero_points;
  const auto of_taps = [&] {
    return has_joined_groups ? places_of_taps(geometry, cut, strides) : std::vector<std::size_t>{};
  };
  if (cut.source.from == ActivationsFrom::gathered) return {{.activations = {0}, .filter = {0}, .summed = of_taps()}};
  std::vector<ProductSegments> segments;
  for (const ProductRegion& region : cut.regions) {
    segments.push_back(segments_of(geometry, cut, strides, region.rows.taps, region.columns.taps));
  }
  if (!segments.empty()) return segments;
  const std::int64_t rows_of_cell = cut.source.cells.rows, rows = divide_up(geometry.kernel_height, rows_of_cell);
  ProductSegments all =
      segments_of(geometry, cut, strides, {0, rows}, {0, static_cast<std::int64_t>(cut.filter.order.segments) / rows});
  all.summed = of_taps();
  if (has_joined_groups || rows_of_cell == 1) return {all};
  for (std::int64_t row = 0; row < geometry.kernel_height; ++row) {
    all.summed.push_back(as_size(row / rows_of_cell) * strides.segment +
                         as_size(row % rows_of_cell * geometry.kernel_width * geometry.group_input_channels()));
  }
  return {all};
}

}  // namespace dmlcpu
