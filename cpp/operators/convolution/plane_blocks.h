// How the outputs of a plane are cut into the blocks of kernels/depthwise_planes, and which bytes their lanes read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/depthwise_planes/depthwise_planes.h"
#include "operators/convolution/convolution_geometry.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {

// The columns of the input that a row of a window has, from its first one on.
constexpr std::int64_t window_columns(const ConvolutionGeometry& geometry) {
  return (geometry.kernel_width - 1) * geometry.dilation_width + 1;
}

// Blocks of an image, in floating point, where sizes of absurd descs would overflow integers.
double most_plane_blocks(const ConvolutionGeometry& geometry);

// Where a row of the input serves several outputs (plane_windows_descend), lanes are neighbours of one row of outputs
// and go down an image, or some rows of it. Rows that are too short for a vector's lanes stand beside each other, as
// many as a load can reach, each above a part of the image of its own:
//
//   7 x 7 outputs      lanes 0-6: rows 0, 1, 2, 3      lanes 7-13: rows 4, 5, 6
//
// Elsewhere lanes are the next outputs of the plane, of several rows where these are short, and a block has one step.
class PlaneBlocks {
 public:
  // Rows are packed in the input, and outputs are neighbours in a plane; a row of a window is within a load.
  explicit PlaneBlocks(const ConvolutionGeometry& geometry);

  std::size_t row_stride() const { return row_stride_; }  // of a kernel's run, 0 where all blocks have one step
  std::size_t count() const { return blocks_.size(); }
  const PlaneBlock* blocks() const { return blocks_.data(); }
  const std::uint8_t* orders() const { return orders_.data(); }
  const std::uint64_t* inside() const { return inside_.data(); }

 private:
  std::size_t row_stride_;
  std::vector<PlaneBlock> blocks_;
  AlignedBuffer orders_;
  std::vector<std::uint64_t> inside_;
};

}  // namespace dmlcpu
