// Steps from codes to codes, or from floats to floats, element by element, that become stages of the convolution whose
// output they read: what the convolution computes is then never written to memory by itself, but to the output of the
// last stage, and changed there, or before it gets there, while it is in a cache.
//
//   convolution -> y          z = add(y, x)             convolution -> z, then z = add(z, x) by parts
//
// So that a part has the same place in x and z, these are laid out alike: channels innermost, without gaps. Only x is,
// where they are floats: their convolution knows which pixels and channels it has. y has no other reader and is not
// bound.
#pragma once

#include <cstddef>

#include "graph/placement.h"

namespace dmlcpu {

// A step takes no more stages than this.
inline constexpr std::size_t kMostStages = 4;

// The convolution moves to where its last stage was: all operands have been computed there.
void fuse_steps(PlacedGraph& placed);

}  // namespace dmlcpu
