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

// Whether what is kept of an image's blocks, and looked for, is little. In floating point, where sizes of absurd descs
// would overflow integers.
bool has_few_plane_blocks(const ConvolutionGeometry& geometry);

// Where a row of the input serves several outputs (plane_windows_descend), lanes are neighbours of one row of outputs
// and go down an image, or some rows of it. Elsewhere, and where that leaves too many lanes empty, they are the next
// outputs of the plane, of several rows where these are short, and a block has one step:
//
//   20 columns, descents    row 0 | 16 lanes |   4       of 2 blocks, down the rows
//               runs        row 0 | 16 lanes | 4 of this and 12 of the next one | ...
class PlaneBlocks {
 public:
  // The elements of the input's rows are neighbours, and so are a plane's outputs; a row of a window is within a load.
  explicit PlaneBlocks(const ConvolutionGeometry& geometry);

  std::size_t row_stride() const { return row_stride_; }  // of a kernel's run
  bool descends() const { return row_stride_ != 0; }
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
