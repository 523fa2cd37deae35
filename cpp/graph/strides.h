// Arithmetic on the strides of views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "operators/operator.h"

namespace dmlcpu {

// Strides of a packed tensor whose axes nest in this order, the last one innermost.
Extents packed_strides(const TensorLayout& layout, std::span<const std::size_t> order);
Extents row_major_strides(const TensorLayout& layout);

// {N, H, W, C} memory of {N, C, H, W} tensors, and the same for any number of spatial axes.
Extents channels_last_strides(const TensorLayout& layout);

// Whether a tensor's elements are where these strides would have them: those of axes of length 1 do not count.
bool same_strides(const TensorLayout& layout, const Extents& strides);

// The strides under which the elements of a tensor, in row-major order, have the other's sizes; nothing if none do.
// Both have as many elements.
std::optional<Extents> reshaped_strides(const TensorLayout& layout, const TensorLayout& reshaped);

}  // namespace dmlcpu
