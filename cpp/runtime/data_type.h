// Element types, with DirectML's numeric values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

enum class DataType : std::uint8_t {
  unknown = 0,
  float32 = 1,
  float16 = 2,
  uint32 = 3,
  uint16 = 4,
  uint8 = 5,
  int32 = 6,
  int16 = 7,
  int8 = 8,
  int64 = 11,
  uint4 = 12,
  int4 = 13,
};

// Two elements share a byte, the first in its low half.
constexpr bool is_four_bits(DataType type) { return type == DataType::uint4 || type == DataType::int4; }

// Bytes of one element; 0 for a type that no kernel handles and for one of 4 bits.
constexpr std::size_t element_size(DataType type) {
  switch (type) {
    case DataType::int64:
      return 8;
    case DataType::float32:
    case DataType::uint32:
    case DataType::int32:
      return 4;
    case DataType::float16:
    case DataType::uint16:
    case DataType::int16:
      return 2;
    case DataType::uint8:
    case DataType::int8:
      return 1;
    case DataType::uint4:
    case DataType::int4:
    case DataType::unknown:
      break;
  }
  return 0;
}

// Bytes that hold so many elements in a row, the last one perhaps in half a byte. count is below 2^60.
constexpr std::size_t storage_size(DataType type, std::int64_t count) {
  const std::size_t elements = static_cast<std::size_t>(count);
  return is_four_bits(type) ? (elements + 1) / 2 : elements * element_size(type);
}

// Codes are computed in the offset domain 0..255, or 0..15: a code of either type goes there and back by this exclusive
// or.
constexpr std::uint8_t offset_flip(DataType type) {
  if (type == DataType::int4) return 0x08;
  return type == DataType::int8 ? 0x80 : 0x00;
}

}  // namespace dmlcpu
