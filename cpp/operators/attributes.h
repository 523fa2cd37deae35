// Attributes of native operators: numbers of a range, and floats as the bits of a float32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "operators/operator.h"

namespace dmlcpu {

// A number of 0..count-1. Throws std::invalid_argument.
inline std::size_t index_attribute(const OperatorDesc& desc, const char* name, std::size_t count) {
  const std::int64_t value = desc.attribute(name).front();
  if (value < 0 || value >= static_cast<std::int64_t>(count)) {
    throw std::invalid_argument(desc.type + ": " + name + " is out of range");
  }
  return static_cast<std::size_t>(value);
}

// Throws std::invalid_argument.
inline float float_of_bits(const OperatorDesc& desc, const char* name, std::int64_t bits) {
  if (bits < 0 || bits > UINT32_MAX) {
    throw std::invalid_argument(desc.type + ": " + name + " is not the bits of a float32");
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

}  // namespace dmlcpu
