// A convolution's output cut by the taps of its windows that lie inside the image, for products over those taps alone:
// with dilations near the image's size most of the others would multiply padding.
//
//   a 3x3 filter with dilation and padding 4 on a 9x9 image: the taps inside, and where
//
//              columns 0-3      column 4       columns 5-8
//   rows 0-3   . . .  . x x     . . .  x x x   . . .  x x .       four regions of 4 taps
//              . x x  . x x     x x x  x x x   x x .  x x .       four of 6 (rows 0-3 and column 4, ...)
//   row  4     . x x            x x x          x x .              one of 9:  49 % of all products
//              . x x            x x x          x x .
//   ...
//
// What a left out tap would have added is the same for all pixels, since it reads the input's zero point xz: with the
// tap's filter codes w, the filter's zero point wz and C channels of the group, offset' = offset + xz * sum w - C * xz
// * wz takes its share out of convolution_algorithm.h's offset. A region may have no taps at all.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/product/packed_filter.h"
#include "operators/sizes.h"

namespace dmlcpu {

// Outputs of one axis in whose windows the same taps lie inside the image.
struct OutputInterval {
  std::int64_t begin, end;
  IndexRange taps;

  std::int64_t count() const { return end - begin; }
};

// Outputs of an image, cut into tiles of about equal sizes. Runs of a tile's product go along rows of the output, or
// along its columns where these fill the kernel's tiles better.
struct ProductRegion {
  OutputInterval rows, columns;
  bool down_columns;
  std::int64_t tile_rows, tile_columns;
  std::int64_t tiles_across;
  std::int64_t first_tile;  // tiles of an image count on from region to region

  std::int64_t taps() const { return rows.taps.count() * columns.taps.count(); }
  bool has_tap(std::int64_t row, std::int64_t column) const {
    return row >= rows.taps.begin && row < rows.taps.end && column >= columns.taps.begin && column < columns.taps.end;
  }
  std::int64_t tiles() const { return divide_up(rows.count(), tile_rows) * tiles_across; }
};

struct ProductRegions {
  TermOrder order;  // by tap
  std::vector<ProductRegion> regions;
  std::int64_t tiles;        // of an image
  std::int64_t tile_pixels;  // of the largest
  double cycles;             // estimated for an image
};

// No regions where their table would be large. most_tile_pixels bounds a tile from above.
ProductRegions cut_into_regions(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                                std::int64_t most_tile_pixels);

// Takes the taps that a region leaves out from its channels' offsets. tap_sums holds, for each tap, the sum of its
// codes for each output channel; filter_zero_point, one for each of these, may be null.
void take_out_taps(const ConvolutionGeometry& geometry, const ProductRegion& region, const std::int32_t* tap_sums,
                   const std::int32_t* filter_zero_point, std::int32_t input_zero_point, std::int32_t* offsets);

}  // namespace dmlcpu
