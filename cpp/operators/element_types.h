// The C++ types of elements, by their data types.
#pragma once

#include <cstdint>

#include "runtime/data_type.h"

namespace dmlcpu {

template <class Element>
inline constexpr DataType kDataTypeOf = DataType::unknown;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::float32;
template <>
inline constexpr DataType kDataTypeOf<std::uint32_t> = DataType::uint32;
template <>
inline constexpr DataType kDataTypeOf<std::uint16_t> = DataType::uint16;
template <>
inline constexpr DataType kDataTypeOf<std::uint8_t> = DataType::uint8;
template <>
inline constexpr DataType kDataTypeOf<std::int32_t> = DataType::int32;
template <>
inline constexpr DataType kDataTypeOf<std::int16_t> = DataType::int16;
template <>
inline constexpr DataType kDataTypeOf<std::int8_t> = DataType::int8;
template <>
inline constexpr DataType kDataTypeOf<std::int64_t> = DataType::int64;

// Calls function with a 0 of the one of some types that is the data type's, if one is.
template <class... Elements, class Function>
void with_element_of_type(DataType type, const Function& function) {
  (void)((type == kDataTypeOf<Elements> && (function(Elements{0}), true)) || ...);
}

}  // namespace dmlcpu
