// A padded copy of a convolution's input in which every tap of the window is the same distance away for every output
// pixel, so that products read it in place: an implicit im2col that writes each input code once instead of once a tap.
//
// Codes are unsigned (flip applied), the padding holds the zero point. With strides the rows of the copy are sorted by
// their remainder, so that the rows that neighbouring output rows read are neighbours: for a stride of 2 and a tap in
// padded row 3, output rows 0 1 2 read padded rows 3 5 7, which stand together among the odd ones.
//
//   image, row remainder, row, column, channel
//   position of an output pixel: row * row_positions + column, position_bytes = stride * channels
//
// Output pixels are counted by positions: those of one row follow each other, and row_positions - output_width
// positions of no pixel follow each row (what the padding and the window add). Positions that belong to no pixel read
// codes of the copy like any other; their results are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "operators/convolution_algorithm.h"
#include "operators/convolution_geometry.h"

namespace dmlcpu {

class PaddedPlanes {
 public:
  explicit PaddedPlanes(const ConvolutionGeometry& geometry);

  // Whether the tables of a plan, of the taps and of the remainders of the strides, are of any reasonable size.
  static bool possible(const ConvolutionGeometry& geometry) {
    constexpr std::int64_t kLargestStride = 1 << 16, kMostTaps = 1 << 12;
    return geometry.stride_height <= kLargestStride && geometry.stride_width <= kLargestStride &&
           geometry.kernel_height <= kMostTaps && geometry.kernel_width <= kMostTaps &&
           geometry.kernel_height * geometry.kernel_width <= kMostTaps;
  }
  // Whether that holds, and the copy and the positions that it wastes are worth it: both at most about twice what there
  // is.
  static bool applies(const ConvolutionGeometry& geometry);

  // With room behind the last code for a step of k that begins within the copy.
  std::size_t size() const { return image_bytes_ * batch_ + kAlignment; }
  std::int64_t row_positions() const { return row_positions_; }
  std::size_t position_bytes() const { return position_bytes_; }

  // From an output pixel's position to the first tap of a kernel row.
  std::size_t row_offset(std::int64_t kernel_row) const;
  std::size_t image_bytes() const { return image_bytes_; }

  void fill(const ActivationSource& source, const PackKernels& kernels, int num_threads, std::uint8_t* planes) const;

 private:
  void fill_row(const ActivationSource& source, const PackKernels& kernels, std::int64_t image, std::int64_t padded_row,
                std::uint8_t* row) const;

  ConvolutionGeometry geometry_;
  std::size_t batch_;
  std::int64_t rows_;     // of one remainder
  std::int64_t columns_;  // of all remainders
  std::int64_t row_positions_;
  std::size_t row_bytes_, position_bytes_, image_bytes_;
  // Where the rows of a remainder stand among those that some tap reads; -1 for those that none does.
  std::vector<std::int64_t> row_remainder_;
  std::int64_t used_rows_;
};

}  // namespace dmlcpu
