#include "operators/convolution/product/product_tile.h"

#include <algorithm>

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

ProductTile tile_of_region(const ConvolutionGeometry& geometry, const ProductCut& cut, std::int64_t image,
                           std::int64_t tile, IndexRange blocks) noexcept {
  const auto after =
      std::upper_bound(cut.regions.begin(), cut.regions.end(), tile,
                       [](std::int64_t number, const ProductRegion& region) { return number < region.first_tile; });
  const ProductRegion& region = *(after - 1);
  const std::int64_t of_region = tile - region.first_tile;
  const std::int64_t row = region.rows.begin + of_region / region.tiles_across * region.tile_rows;
  const std::int64_t column = region.columns.begin + of_region % region.tiles_across * region.tile_columns;
  const std::int64_t rows = std::min(region.tile_rows, region.rows.end - row);
  const std::int64_t columns = std::min(region.tile_columns, region.columns.end - column);
  const bool down = region.down_columns;
  return {.region = as_size(&region - cut.regions.data()),
          .group = 0,
          .image = image,
          .row = row,
          .column = column,
          .runs = down ? columns : rows,
          .m = down ? rows : columns,
          .output_run_stride = as_size(down ? geometry.output.w : geometry.output.h),
          .output_row_stride = as_size(down ? geometry.output.h : geometry.output.w),
          .first_block = blocks.begin,
          .end_block = blocks.end};
}

}  // namespace

ProductTile product_tile(const ConvolutionGeometry& geometry, const ProductCut& cut, std::int64_t output_pixel_stride,
                         std::int64_t task) noexcept {
  const std::int64_t split = task % cut.blocks.splits, tile = task / cut.blocks.splits;
  const IndexRange blocks = {cut.blocks.count * split / cut.blocks.splits,
                             cut.blocks.count * (split + 1) / cut.blocks.splits};
  if (!cut.regions.empty()) {
    return tile_of_region(geometry, cut, tile / cut.tiles.of_unit, tile % cut.tiles.of_unit, blocks);
  }
  const std::int64_t of_unit = tile % cut.tiles.of_unit * cut.tiles.pixels;
  const std::int64_t count = std::min(cut.tiles.pixels, cut.tiles.units.pixels - of_unit);
  const std::int64_t first = tile / cut.tiles.of_unit * cut.tiles.units.pixels + of_unit;
  const std::int64_t pixel = first % geometry.image_pixels(), width = geometry.output_width;
  return {.region = 0,
          .group = 0,
          .image = first / geometry.image_pixels(),
          .row = pixel / width,
          .column = pixel % width,
          .runs = cut.tiles.units.bands(geometry) ? count / width : 1,
          .m = cut.tiles.units.bands(geometry) ? width : count,
          .output_run_stride = as_size(geometry.output.h),
          .output_row_stride = as_size(output_pixel_stride),
          .first_block = blocks.begin,
          .end_block = blocks.end};
}

}  // namespace dmlcpu
