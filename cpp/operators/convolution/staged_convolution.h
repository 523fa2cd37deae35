// Convolution of tensors whose channels are not neighbours: an algorithm for {N, H, W, C} memory, on copies.
//
//   input {N, C, H, W} -> transpose -> {n, H, W, C} -> algorithm -> {n, H, W, C} -> transpose -> output {N, C, H, W}
//
// Either copy is left out where the tensor's channels are neighbours already. Copies hold images_at_once(). Input codes
// become unsigned on the way.
#pragma once

#include <memory>

#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

// Which tensors an algorithm wants as copies.
struct Staging {
  bool input, output;
};

// What make_algorithm makes, on copies where the channels of a tensor that should be one are not neighbours; without
// any, what it makes of the geometry itself.
std::unique_ptr<ConvolutionAlgorithm> make_staged_convolution(const ConvolutionGeometry& geometry, Staging staging,
                                                              const ExecutionTarget& target,
                                                              MakeAlgorithm* make_algorithm);

}  // namespace dmlcpu
