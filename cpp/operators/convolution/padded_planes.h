// A padded copy of a convolution's input, {N, H, W, C}, in which the windows of all output pixels stand whole, so that
// products read them in place: an implicit im2col that writes each input code once instead of once a tap.
//
// Codes are unsigned (flip applied), the padding holds the zero point. Pixels may be further apart than their codes
// are, at whole steps of a product; what is between has any value.
//
//   channels 3, pixel_bytes 4     c0 c1 c2 -  c0 c1 c2 -  ...
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

class PaddedPlanes {
 public:
  // Room for `images` of the batch at a time, or of one image for the windows of `output_rows` rows of the output. A
  // pixel takes pixel_bytes: the input's channels, or more where these are a multiple of 8.
  PaddedPlanes(const ConvolutionGeometry& geometry, std::int64_t pixel_bytes, std::int64_t images,
               std::int64_t output_rows);
  PaddedPlanes(const ConvolutionGeometry& geometry, std::int64_t pixel_bytes, std::int64_t images);

  // Whether the copy is worth it: windows overlap, and it has no more codes than gathering them would copy.
  static bool applies(const ConvolutionGeometry& geometry);
  // Whether a copy could be within memory at all.
  static bool holds(const ConvolutionGeometry& geometry);

  // With room behind the last code for a step of k that begins within the copy.
  std::size_t size() const { return image_bytes_ * images_ + kAlignment; }
  std::size_t image_bytes() const { return image_bytes_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t pixel_bytes() const { return as_size(pixel_bytes_); }

  // The first `images` of the source, as many as there is room for at most, from padded row `first_row` on: as many
  // rows as there is room for, or are left.
  void fill(const ActivationSource& source, const PackKernels& kernels, std::int64_t images, std::int64_t first_row,
            int num_threads, std::uint8_t* planes) const;

 private:
  ConvolutionGeometry geometry_;
  std::int64_t pixel_bytes_;
  std::size_t images_;
  std::int64_t padded_rows_, rows_, columns_;  // of an image; rows of it at a time
  std::size_t row_bytes_, image_bytes_;
};

}  // namespace dmlcpu
