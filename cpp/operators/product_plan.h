// How a convolution is cut up for a matrix product: where its activations come from, tiles, blocks of channels, tasks
// and scratch memory, chosen once from the desc and the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "operators/convolution_packing.h"
#include "operators/sizes.h"

namespace dmlcpu {

// Where a tile's activations come from.
enum class ActivationsFrom : std::uint8_t {
  input,   // the input itself: a pointwise convolution of one run of memory
  planes,  // the padded copy
  pixels,  // each pixel's window, gathered tap by tap: what fits neither
};

// How a compiled convolution is cut up. Output pixels are counted by positions, see PaddedPlanes; where there are no
// planes every position is a pixel.
struct ProductPlan {
  ActivationsFrom source;
  bool in_place;  // rows of the product are read where the source has them
  PackedFilter filter;
  std::int64_t row_positions;
  std::int64_t units;           // images, or 1 where positions run through the batch
  std::int64_t unit_distance;   // positions from one image to the next
  std::int64_t unit_positions;  // from the first pixel of a unit to its last
  std::int64_t tile_positions;
  std::int64_t tiles_of_unit;
  std::int64_t block_channels;  // output channels of one product, of one group
  std::int64_t blocks;          // of a group
  std::int64_t block_splits;    // parts that the blocks of a tile are divided into for more tasks
  int participants;

  std::size_t tasks() const { return as_size(units * tiles_of_unit * block_splits); }

  // The scratch buffer is the planes, then one part for each participant; offsets into a part.
  std::size_t participants_offset, participant_size;
  std::size_t activations, accumulators, activation_sums, codes;
  std::size_t scratch_size;
};

// The distance of the input's neighbouring pixels, where a pointwise convolution can read them as they stand.
std::optional<std::int64_t> readable_pixel_stride(const ConvolutionGeometry& geometry);

// input_flip is 0x80 for INT8 input. Throws std::bad_alloc if a size is beyond the address space.
ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t input_flip,
                         int num_threads);

}  // namespace dmlcpu
