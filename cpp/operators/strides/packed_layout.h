// Tensors whose elements lie in row-major order, without gaps.
#pragma once

#include "operators/operator.h"

namespace dmlcpu {

// The same tensor with the strides of a packed one. Throws std::invalid_argument if its sizes overflow.
TensorLayout packed(TensorLayout layout);

// Whether a tensor's elements are where these strides would have them: those of axes of length 1 do not count.
bool same_strides(const TensorLayout& layout, const Extents& strides);

inline bool is_packed(const TensorLayout& layout) { return same_strides(layout, packed(layout).strides); }

}  // namespace dmlcpu
