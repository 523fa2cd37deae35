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
};

// Bytes of one element; 0 for a type that no kernel handles.
constexpr std::size_t element_size(DataType type) {
  switch (type) {
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
    case DataType::unknown:
      break;
  }
  return 0;
}

// 8-bit codes are computed in the offset domain 0..255: a code of either type goes there and back by this exclusive or.
constexpr std::uint8_t offset_flip(DataType type) { return type == DataType::int8 ? 0x80 : 0x00; }

}  // namespace dmlcpu
