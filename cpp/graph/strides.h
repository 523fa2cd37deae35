// Arithmetic on the strides of views.
#pragma once

#include <optional>

#include "operators/operator.h"

namespace dmlcpu {

// {N, H, W, C} memory of {N, C, H, W} tensors, and the same for any number of spatial axes.
Extents channels_last_strides(const TensorLayout& layout);

// The strides under which the elements of a tensor, in row-major order, have the other's sizes; nothing if none do.
// Both have as many elements.
std::optional<Extents> reshaped_strides(const TensorLayout& layout, const TensorLayout& reshaped);

}  // namespace dmlcpu
