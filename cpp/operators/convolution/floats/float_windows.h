// The windows of a float convolution's pixels as rows of a matrix, whose columns are the terms of a window: channels
// innermost, then columns of the window, then its rows.
#pragma once

#include <cstdint>

#include "operators/convolution/convolution_geometry.h"

namespace dmlcpu {

// Whether a window is a run of memory for each of its rows, wherever its padding stands in memory as well, and output
// rows are long enough to be rows of a product of their own.
bool windows_are_runs(const ConvolutionGeometry& geometry);

// Whether they are and the input has all that windows read, its channels of a group and pixels being neighbours: the
// runs lie in it.
bool windows_lie_in(const ConvolutionGeometry& geometry);

class FloatWindows {
 public:
  explicit FloatWindows(const ConvolutionGeometry& geometry);

  // Terms [k, k + terms) of pixels [first, first + count), each pixel's together; input is the first element of the
  // group. Taps in the padding are zeros.
  void gather(const float* input, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t terms,
              float* rows) const noexcept;

 private:
  // Terms that are one run in memory, of one row of the window, or of one tap: those after the first `skipped`.
  struct Run {
    std::int64_t kernel_row, kernel_column, skipped, count;
  };

  void gather_line(const float* line, const PixelRun& pixels, const Run& run, std::int64_t stride,
                   float* rows) const noexcept;
  void gather_joined(const float* line, const PixelRun& pixels, const Run& run, std::int64_t stride,
                     float* rows) const noexcept;

  ConvolutionGeometry geometry_;
  std::int64_t channels_;  // of a group
  bool joined_;            // the taps of a row of the window are neighbours, channels and all
};

}  // namespace dmlcpu
