// Elements that are only moved, by their width: whatever their type, as unsigned integers of as many bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// Calls function with a 0 of the integer of so many bytes: 8, 4, 2 or 1.
template <class Function>
void with_element_of(std::size_t bytes, const Function& function) {
  switch (bytes) {
    case 8:
      return function(std::uint64_t{0});
    case 4:
      return function(std::uint32_t{0});
    case 2:
      return function(std::uint16_t{0});
    default:
      return function(std::uint8_t{0});
  }
}

}  // namespace dmlcpu
