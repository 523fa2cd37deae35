// The codes of a depthwise convolution's taps in groups of four (tap_groups.h), for the outputs of a strip. Each thread
// interleaves them in memory of its own, from the padded rows that it loads:
//
//   memory    ring of padded rows (padded_strips.h) | buffer 0 | buffer 1 | ...
//
// A buffer is mostly of four rows of the ring, or of four columns of one, and is interleaved anew for the next output
// row. Where windows have at most three rows and follow each other row by row, a buffer serves several output rows: of
// a 3x3 filter two, the second one with the filter's bytes moved by one.
//
//   buffer          [r0 r1 r2 r3] [r0 r1 r2 r3] ...
//   output row 0     f0 f1 f2 -
//   output row 1     -  f0 f1 f2
//
// Buffers of pairs of rows last: the ring holds the pair alone that is interleaved next, and the buffers are a ring
// themselves, of which an output row reads all, from its first pair on:
//
//   6x6 filter, stride 2      buffer 0     buffer 1     buffer 2
//   output row 0              pair 0       pair 1       pair 2
//   output row 1              pair 3       pair 1       pair 2        first buffer: 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/direct/tap_groups.h"
#include "operators/convolution/padded/padded_strips.h"

namespace dmlcpu {

class InterleavedTaps {
 public:
  InterleavedTaps(const ConvolutionGeometry& geometry, const ExecutionTarget& target);

  // PaddedStrips::applies to the rows of a strip and its buffers.
  static bool applies(const ConvolutionGeometry& geometry);

  const TapGroups& taps() const { return taps_; }
  const PaddedStrips& strips() const { return strips_; }
  std::int64_t rows_of_buffer() const { return rows_of_buffer_; }  // output rows that one serves
  std::size_t memory_bytes() const { return memory_bytes_; }

  // Brings in what rows_of_buffer() output rows of a task from `row` on read. `loaded` is what the call before has
  // returned, 0 of a task's first.
  std::int64_t load(const ActivationSource& source, const PaddedStrips::Task& task, std::int64_t row,
                    std::int64_t loaded, std::uint8_t* memory) const noexcept;

  // What kernels/depthwise takes then: the codes, the bytes from a pixel's to the next one's, and where each group
  // begins for the row that was loaded.
  const std::uint8_t* codes(const std::uint8_t* memory) const { return memory + buffers_; }
  std::size_t pixel_step() const;
  const std::size_t* group_offsets(std::int64_t row) const;

 private:
  void interleave_rows(std::int64_t top, std::int64_t outputs, std::uint8_t* memory) const noexcept;
  void interleave_pixels(InterleaveRun run, std::size_t pixels) const noexcept;
  std::int64_t load_pairs(const ActivationSource& source, const PaddedStrips::Task& task, std::int64_t row,
                          std::int64_t loaded, std::uint8_t* memory) const noexcept;
  void interleave_pair(std::int64_t pair, std::int64_t outputs, std::uint8_t* memory) const noexcept;

  TapGroups taps_;
  std::size_t channels_, pixel_bytes_;
  std::int64_t stride_height_, stride_width_, dilation_height_, dilation_width_;
  std::int64_t rows_of_buffer_;
  PaddedStrips strips_;
  const PackKernels& pack_;
  std::size_t buffer_bytes_;
  std::size_t ring_at_, buffers_, memory_bytes_;  // offsets into the memory, and its size
  std::vector<std::size_t> offsets_;              // from codes() on, of each group, for each first buffer
};

}  // namespace dmlcpu
