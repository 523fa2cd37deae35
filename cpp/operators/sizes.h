// Arithmetic on sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

constexpr std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// For products of sizes: those of absurd descs, which nothing has refused yet, overflow integers.
constexpr double as_number(std::int64_t value) { return static_cast<double>(value); }

// Of any value that is not negative: sizes of axes that repeat take no memory, and may be as large as there are
// numbers.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t divisor) {
  return value / divisor + (value % divisor > 0 ? 1 : 0);
}

}  // namespace dmlcpu
