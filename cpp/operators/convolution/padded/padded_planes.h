// A padded copy of a convolution's input in which the windows of all output pixels stand whole, so that products read
// them in place: an implicit im2col that writes an input code once, or once for some of the taps that read it.
//
// Codes are unsigned (flip applied), the padding holds the zero point. A row of the copy consists of cells. They are
// pixels, {N, H, W, C}, perhaps further apart than their codes take, so that each begins at a whole step of a product,
// or each group of their channels does; what is between has any value. Or there is one for each output column: what its
// windows have of a row, or of some rows, one after the other; then strides in width are taken while copying.
//
//   3 channels, 3x2 filter, cells of 16 bytes; a00 is channel 0 of the first pixel of row a, b00 of the row below
//     pixels            a00 a01 a02 -                                 a10 a11 a12 -
//     windows' rows     a00 a01 a02 a10 a11 a12 -                     a10 a11 a12 a20 a21 a22 -
//     pairs of them     a00 a01 a02 a10 a11 a12 b00 b01 b02 b10 ...   a10 a11 a12 a20 a21 a22 b10 ...
//
// The last pair of a window of odd height has a row too many, which meets zeros in the filter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/convolution_geometry.h"
#include "operators/sizes.h"

namespace dmlcpu {

// The convolution of the same input whose windows are its pixels: its planes are a plain copy.
ConvolutionGeometry unpadded(ConvolutionGeometry geometry);

// What the rows of planes consist of.
struct PlaneCells {
  static constexpr std::int64_t kMostRows = 64;

  bool are_windows;       // or pixels; of filters without dilation in width, whose strides are within their size
  std::int64_t rows;      // of padded pixels in a cell, up to kMostRows; 1 where these are dilated
  std::int64_t row_step;  // padded rows from one row of cells to the next, which the stride is a multiple of
  std::int64_t bytes;     // from a cell to the next; at least its codes
  std::int64_t multiple;  // of cells that a row has room for
  std::int64_t pieces;    // of a pixel's channels, that are as many bytes apart from each other; 1 of windows

  static PlaneCells pixels(std::int64_t bytes, std::int64_t pieces = 1) {
    return {.are_windows = false, .rows = 1, .row_step = 1, .bytes = bytes, .multiple = 1, .pieces = pieces};
  }
  // Padded pixels of one of its rows, and from a cell to the next.
  std::int64_t columns(const ConvolutionGeometry& geometry) const { return are_windows ? geometry.kernel_width : 1; }
  std::int64_t step(const ConvolutionGeometry& geometry) const { return are_windows ? geometry.stride_width : 1; }
};

class PaddedPlanes {
 public:
  // Room for so many images of the batch at a time, which threads copy.
  static PaddedPlanes of_images(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t images,
                                int num_threads) {
    return {geometry, cells, images, geometry.output_height, num_threads};
  }
  // Room for the windows of so many rows of one image's output, which one thread copies.
  static PaddedPlanes of_rows(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t output_rows) {
    return {geometry, cells, 1, output_rows, 1};
  }

  // Whether the copy is worth it: windows overlap, and it has no more codes than gathering them would copy.
  static bool applies(const ConvolutionGeometry& geometry);
  // Whether a copy could be within memory at all, of pixels without gaps or of cells.
  static bool holds(const ConvolutionGeometry& geometry);
  static bool holds(const ConvolutionGeometry& geometry, const PlaneCells& cells);

  // With room behind the last code for a step of k that begins within the copy, and, where cells are apart, for the
  // packed rows of a row of cells of each thread that copies.
  std::size_t size() const { return image_bytes_ * images_ + kAlignment + packed_bytes() * as_size(num_threads_); }
  std::size_t image_bytes() const { return image_bytes_; }
  std::size_t row_bytes() const { return row_bytes_; }
  // From the windows of an output row to those of the next, and from a segment of a window to the next.
  std::size_t output_row_bytes() const { return as_size(geometry_.stride_height / cells_.row_step) * row_bytes_; }
  std::size_t segment_bytes() const {
    return as_size(cells_.rows * geometry_.dilation_height / cells_.row_step) * row_bytes_;
  }
  std::size_t cell_bytes() const { return as_size(cells_.bytes); }

  // The first `images` of the source, as many as there is room for at most, from the windows of output row `first_row`
  // on: of as many rows as there is room for, or are left.
  void fill(const ActivationSource& source, const PackKernels& kernels, std::int64_t images, std::int64_t first_row,
            std::uint8_t* planes) const;

 private:
  PaddedPlanes(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t images,
               std::int64_t output_rows, int num_threads);
  std::int64_t rows_of(std::int64_t output_rows) const;
  std::size_t packed_bytes() const { return as_size(cells_.rows) * packed_row_bytes_; }
  // So many rows of cells, with room for packed_bytes() beside.
  void fill_rows(const ActivationSource& source, const PackKernels& kernels, std::int64_t image, std::int64_t first,
                 std::int64_t count, std::uint8_t* packed, std::uint8_t* output) const;

  ConvolutionGeometry geometry_;
  PlaneCells cells_;
  std::size_t images_;
  std::int64_t rows_of_image_, rows_;  // of cells, of an image and at a time
  int num_threads_;
  std::int64_t columns_, cells_of_row_;  // padded pixels, and cells
  std::size_t packed_row_bytes_;         // of a row before its cells are apart; 0 where they are not
  std::size_t row_bytes_, image_bytes_;
};

}  // namespace dmlcpu
