// The axes of several tensors of equal sizes, brought into one order and joined where all of them allow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dmlcpu {

inline constexpr std::size_t kMaxOperands = 4;

using OperandStrides = std::array<std::int64_t, kMaxOperands>;

struct StridedAxis {
  std::int64_t size;
  OperandStrides strides;  // in elements; 0 of an operand that is absent
};

// Sorts the axes, of which there is one at least, by the stride of the operand of number decider, the smallest first,
// drops those of length 1, and joins neighbours that form one axis in every operand. Returns how many are left at the
// front; at least 1, which may be of length 1.
std::size_t order_and_join(std::span<StridedAxis> axes, std::size_t decider = 0);

}  // namespace dmlcpu
