// How a convolution is cut up for a matrix product: where its activations come from, tiles, blocks of channels, tasks
// and scratch memory, chosen once from the desc and the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operators/convolution/packed_filter.h"
#include "operators/convolution/padded_planes.h"
#include "operators/convolution/product_regions.h"
#include "operators/convolution/product_source.h"
#include "operators/sizes.h"

namespace dmlcpu {

// Output pixels are rows of the product. A tile is a band of whole output rows (runs of the product), a part of one
// row, or a flat stretch of pixels whose rows follow each other without a seam, in the output and where the input is
// read in place; or, where taps in the padding are left out, a part of a region.
struct ProductPlan {
  ProductSource source;
  bool reads_signed;  // INT8 codes of the input, as they are
  bool by_rows;       // the input's rows have seams: tiles are bands or parts of a row
  PackedFilter filter;
  std::vector<ProductRegion> regions;  // of an image; none where all taps are multiplied
  double saved_by_regions;             // the part of the estimated time
  std::int64_t unit_pixels;            // of what tiles do not cross: a row, an image or the batch
  std::int64_t units;
  std::int64_t tile_pixels;  // for bands a multiple of the output's width
  std::int64_t tiles_of_unit;
  std::int64_t block_channels;  // output channels of one product, of one group
  std::int64_t blocks;          // of a group
  std::int64_t block_splits;    // parts that the blocks of a tile are divided into for more tasks
  int participants;
  bool copies_tiles;            // each task copies what its own tile reads; else planes are copied before the tasks
  std::int64_t images_at_once;  // of the batch: all, or as many planes as are in a cache

  // Whether tiles are bands of whole rows; else a tile is a single run.
  bool bands(const ConvolutionGeometry& geometry) const { return by_rows && unit_pixels != geometry.output_width; }
  std::size_t tasks() const { return as_size(units * tiles_of_unit * block_splits); }

  std::size_t region_offsets_stride;  // from the channels' offsets of a region to those of the next, in elements

  // The scratch buffer is the planes, unless tiles have their own, then one part for each participant; offsets into
  // one.
  std::size_t participants_offset, participant_size;
  std::size_t activations, activation_sums, results, tile_planes;
  std::size_t scratch_size;
};

// The copy that the plan reads: of images, by so many threads, or for a tile, by its own.
PaddedPlanes planes_of(const ConvolutionGeometry& geometry, const ProductPlan& plan, int num_threads);

// Whether threads divide the channels of the output rather than its pixels: a task reads its pixels' share of the
// activations and its channels' share of the filter, so the larger of the two is divided.
bool divides_channels(const ConvolutionGeometry& geometry);

// For the kernels, which are not those of the target where a row has others for small products. Throws std::bad_alloc
// if a size is beyond the address space.
ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                         const ExecutionTarget& target);

// What was chosen and why, one property a line.
std::string describe_product_plan(const ConvolutionGeometry& geometry, const ExecutionTarget& target,
                                  const ProductPlan& plan);

}  // namespace dmlcpu
