// The input of a convolution for algorithms that walk down strips of output columns: the padded rows that a strip's
// window touches stand in a ring (row_ring.h), channels together, and each is loaded once a task.
//
//   output     a task: one strip, a band of rows         ring, 3x3 filter
//              | strip 0 | strip 1 |                       row 0   p p p p p        then row 3
//     band 0   | task 0  | task 1  |                       row 1   p x x x x        then row 4
//     band 1   | task 2  | task 3  |                       row 2   p x x x x        ...
//
// Bands differ by one step of rows at most, so that the threads' shares of the tasks are equal parts of the image.
// Codes are unsigned (flip applied), the padding holds the zero point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/padded/row_ring.h"
#include "operators/sizes.h"

namespace dmlcpu {

class PaddedStrips {
 public:
  // What one task computes of the output.
  struct Task {
    std::int64_t image, first_column, columns, first_row, end_row;
  };

  // Strips of that many output columns, bands of whole steps of row_step output rows but for the last, and a ring of
  // that many padded rows; with none, only the cut is there, and nothing is loaded.
  PaddedStrips(const ConvolutionGeometry& geometry, int num_threads, std::int64_t strip_columns, std::int64_t row_step,
               std::int64_t ring_rows);

  // Whether the window has at most 4096 taps, `rows` padded rows of a strip are below 32 MiB, and at most 16 codes
  // are loaded for each tap of the windows. For sizes of absurd descs as well.
  static bool applies(const ConvolutionGeometry& geometry, double strip_columns, double rows);

  std::size_t tasks() const { return as_size(geometry_.batch * strips_ * bands_); }
  Task task(std::size_t index) const;
  // Threads that can take part.
  int participants() const { return participants_; }

  const RowRing& ring() const { return ring_; }
  // Columns of the padded input that so many outputs of one row read.
  std::int64_t columns_read(std::int64_t outputs) const {
    return window_extent(outputs, geometry_.stride_width, geometry_.kernel_width, geometry_.dilation_width);
  }

  // Where a row of a task begins in the output.
  std::uint8_t* output(const ConvolutionDispatch& dispatch, const Task& task, std::int64_t row) const;
  // What is done to the codes or sums of rows of a task once they are there, of all channels.
  void finish(const ConvolutionDispatch& dispatch, const Task& task, std::int64_t first_row,
              std::int64_t end_row) const noexcept;

  // RowRing::fill of a task's part of the rows.
  std::int64_t load(const ActivationSource& source, const PackKernels& kernels, const Task& task, std::int64_t top,
                    std::int64_t loaded, std::uint8_t* ring) const noexcept;

  // The cut in words.
  std::string describe() const;

 private:
  std::int64_t first_row(std::int64_t band) const;

  ConvolutionGeometry geometry_;
  std::int64_t strip_columns_, strips_, row_step_, bands_;
  RowRing ring_;
  int participants_;
};

}  // namespace dmlcpu
