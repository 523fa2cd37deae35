// Groups of few channels in one product. Where kernels multiply whole cache lines of a pixel, one group's channels
// would fill a part of a step of k; as many groups together as fit one are read as a step. The filter of an output
// channel meets all of them, with zeros for the channels of the other groups:
//
//   two groups of 32 channels      a line of a pixel      [g0: 0 ... 31] [g1: 0 ... 31]
//                                  filters of group 0     [w  ...      ] [0  ...      ]
//                                  filters of group 1     [0  ...      ] [w  ...      ]
//
// No sum changes. What filters with zero points take away, the sum of a window, is of one group: with such a filter the
// product is by the output channels of one group at a time.
#pragma once

#include "operators/convolution/convolution_geometry.h"
#include "operators/operator.h"

namespace dmlcpu {

// The same convolution with as many of its groups joined as a step of the kernel of products holds and divide them; as
// it is where these have no such steps, or it would not be faster.
ConvolutionGeometry with_joined_groups(const ConvolutionGeometry& geometry, const ExecutionTarget& target);

// Whether any are.
inline bool joins_groups(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  return with_joined_groups(geometry, target).joined_groups > 1;
}

}  // namespace dmlcpu
