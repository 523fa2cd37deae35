// How a convolution is cut up for a matrix product: where its activations come from, tiles, blocks of channels, tasks
// and scratch memory, chosen once from the desc and the caches. Each record follows from those above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/product/packed_filter.h"
#include "operators/convolution/product/product_regions.h"
#include "operators/convolution/product/product_source.h"

namespace dmlcpu {

// What tiles do not cross: a row of the output, an image or the batch.
struct PixelUnits {
  bool by_rows;         // the input's rows have seams: tiles are bands or parts of a row
  std::int64_t pixels;  // of one
  std::int64_t count;

  // Whether tiles are bands of whole rows; else a tile is a single run.
  bool bands(const ConvolutionGeometry& geometry) const { return by_rows && pixels != geometry.output_width; }
};

// Output pixels are rows of the product. A tile is a band of whole output rows (runs of the product), a part of one
// row, or a flat stretch of pixels whose rows follow each other without a seam, in the output and where the input is
// read in place; or, where taps in the padding are left out, a part of a region.
struct PixelTiles {
  PixelUnits units;
  std::int64_t pixels;  // of the largest; for bands a multiple of the output's width
  std::int64_t of_unit;

  std::int64_t count() const { return units.count * of_unit; }
};

struct ChannelBlocks {
  std::int64_t channels;  // output channels of one product, of one group
  std::int64_t count;     // of a group
  std::int64_t splits;    // parts that the blocks of a tile are divided into for more tasks
};

// What the products read, and what each of them computes.
struct ProductCut {
  ProductSource source;
  PackedFilter filter;
  PixelTiles tiles;
  ChannelBlocks blocks;
  std::vector<ProductRegion> regions;  // of an image; none where all taps are multiplied
  double saved_by_regions;             // the part of the estimated time

  std::int64_t tasks() const { return tiles.count() * blocks.splits; }
};

// The copies that the products read.
struct PlaneCopies {
  std::optional<PaddedPlanes> planes;  // of images, or of what a tile reads; none where nothing is copied
  bool of_tiles;                       // each task copies what its own tile reads; else all is copied before the tasks
  std::int64_t images_at_once;         // of the batch: all, or as many planes as are in a cache
};

// The scratch buffer is the planes, unless tiles have their own, then one part for each participant; offsets into one.
struct ProductScratch {
  std::int64_t participants;
  std::size_t participants_offset, participant_size;
  std::size_t activations, activation_sums, results, tile_planes;
  std::size_t size;
};

struct ProductPlan {
  ProductCut cut;
  PlaneCopies copies;
  ProductScratch scratch;
  bool reads_signed;                  // INT8 codes of the input, as they are
  std::size_t region_offsets_stride;  // from the channels' offsets of a region to those of the next, in elements
};

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
