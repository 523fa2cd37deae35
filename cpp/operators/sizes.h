// Arithmetic on sizes that are known to be in range.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

constexpr std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace dmlcpu
