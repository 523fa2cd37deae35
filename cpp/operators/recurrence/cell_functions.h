// The functions of a recurrent operator's cell, as its desc tells them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/recurrence/recurrent_cell.h"

namespace dmlcpu {

// Attributes functions, of so many of them, and bound (recurrence.cpp). Throws std::invalid_argument.
inline CellFunctions cell_functions(const OperatorDesc& desc, std::size_t count) {
  const std::vector<std::int64_t>& numbers = desc.attribute("functions");
  if (numbers.size() != 3 * count) {
    throw std::invalid_argument(desc.type + ": functions are " + std::to_string(count) + " with alpha and beta");
  }
  std::array<CellFunction, 3> functions{};
  for (std::size_t index = 0; index < count; ++index) {
    const std::int64_t* own = numbers.data() + 3 * index;
    if (own[0] < 0 || own[0] >= static_cast<std::int64_t>(kFloatUnaryCount)) {
      throw std::invalid_argument(desc.type + ": a function is out of range");
    }
    functions[index] = {static_cast<FloatUnary>(own[0]), float_of_bits(desc, "alpha", own[1]),
                        float_of_bits(desc, "beta", own[2])};
  }
  const bool has_bound = desc.attributes.contains("bound");
  return {functions[0], functions[1], functions[2], has_bound,
          has_bound ? float_of_bits(desc, "bound", desc.attribute("bound").front()) : 0.0F};
}

}  // namespace dmlcpu
