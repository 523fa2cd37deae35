// The taps of a depthwise convolution's window in groups of four.
//
// The codes of four taps are interleaved into groups of four neighbouring bytes, once for all outputs that use them,
// and one product step then does four taps of many lanes (kernels/depthwise). With several kernel rows the four taps
// are four rows of one column, so that one interleaved buffer serves every kernel column at another offset:
//
//   rows r0 r1 r2 of a 3x3 filter    buffer  [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] ...
//                                    column 0^             1^            2^             one group each: 3 products
//
// With one kernel row the four taps are four columns of it, and the same buffer serves those that follow:
//
//   columns c0 ... c5 of a 1x6       buffer  [c0 c1 c2 c3] [c1 c2 c3 c4] [c2 c3 c4 c5] ...
//                                    groups 0^                         1^, whose first two are not taken again
//
// With stride 2 both ways, undilated windows of more than four rows and one column take two rows of two columns, from
// 32 channels on. They begin at even rows and columns of the padded image, so that every code stands in one group
// alone, and each pair of rows is interleaved once for all output rows:
//
//   rows r0 r1, columns c0 c1 ...    buffer  [r0c0 r0c1 r1c0 r1c1] [r0c2 r0c3 r1c2 r1c3] ...
//                                    output column 0^              1^          6x6: 3 groups of each of 3 buffers
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "operators/convolution/convolution_geometry.h"

namespace dmlcpu {

// A tap of the window, by kernel row and column. Where a group has fewer than four, row is -1; the column of its first
// one counts then, too.
struct Tap {
  std::int64_t row = -1, column = 0;
};

// Interleaved buffers and the groups that read them: a group whose taps stand in other kernel columns than its buffer's
// reads it that many columns further on.
struct TapGroups {
  struct Buffer {
    Tap taps[4];
  };
  struct Group {
    std::size_t buffer;
    Tap taps[4];
  };
  std::vector<Buffer> buffers;
  std::vector<Group> groups;
  bool pairs = false;  // of rows and columns
};

TapGroups group_taps(const ConvolutionGeometry& geometry);

}  // namespace dmlcpu
