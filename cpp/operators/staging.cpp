#include "operators/staging.h"

#include <cstring>

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

template <class Element>
void gather_elements(const void* first, std::int64_t stride, std::size_t count, std::uint8_t* buffer) {
  const Element* source = static_cast<const Element*>(first);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(buffer + i * sizeof(Element), source + static_cast<std::int64_t>(i) * stride, sizeof(Element));
  }
}

template <class Element>
void scatter_elements(const std::uint8_t* buffer, void* first, std::int64_t stride, std::size_t count) {
  Element* target = static_cast<Element*>(first);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(target + static_cast<std::int64_t>(i) * stride, buffer + i * sizeof(Element), sizeof(Element));
  }
}

template <class Element>
void convert_elements(const void* first, std::int64_t stride, std::size_t count, float* values) {
  const Element* source = static_cast<const Element*>(first);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(source[static_cast<std::int64_t>(i) * stride]);
  }
}

}  // namespace

const void* gather(const void* first, DataType type, std::int64_t stride, std::size_t count, ChunkBuffer& buffer) {
  if (stride == 1 || count == 1) return first;
  switch (element_size(type)) {
    case 4:
      gather_elements<std::uint32_t>(first, stride, count, buffer.bytes);
      break;
    case 2:
      gather_elements<std::uint16_t>(first, stride, count, buffer.bytes);
      break;
    default:
      gather_elements<std::uint8_t>(first, stride, count, buffer.bytes);
      break;
  }
  return buffer.bytes;
}

void scatter(const ChunkBuffer& buffer, DataType type, void* first, std::int64_t stride, std::size_t count) {
  switch (element_size(type)) {
    case 4:
      return scatter_elements<std::uint32_t>(buffer.bytes, first, stride, count);
    case 2:
      return scatter_elements<std::uint16_t>(buffer.bytes, first, stride, count);
    default:
      return scatter_elements<std::uint8_t>(buffer.bytes, first, stride, count);
  }
}

void gather_as_float(const void* first, DataType type, std::int64_t stride, std::size_t count, float* values) {
  switch (type) {
    case DataType::float32:
      return convert_elements<float>(first, stride, count, values);
    case DataType::float16: {
      const auto* source = static_cast<const std::uint16_t*>(first);
      for (std::size_t i = 0; i < count; ++i) values[i] = widen({source[static_cast<std::int64_t>(i) * stride]});
      return;
    }
    case DataType::uint32:
      return convert_elements<std::uint32_t>(first, stride, count, values);
    case DataType::uint16:
      return convert_elements<std::uint16_t>(first, stride, count, values);
    case DataType::uint8:
      return convert_elements<std::uint8_t>(first, stride, count, values);
    case DataType::int32:
      return convert_elements<std::int32_t>(first, stride, count, values);
    case DataType::int16:
      return convert_elements<std::int16_t>(first, stride, count, values);
    case DataType::int8:
      return convert_elements<std::int8_t>(first, stride, count, values);
    case DataType::uint4:
    case DataType::int4:
    case DataType::unknown:
      break;
  }
}

float value_as_float(const void* data, DataType type, float otherwise) {
  if (data == nullptr) return otherwise;
  float value = 0.0F;
  gather_as_float(data, type, 0, 1, &value);
  return value;
}

}  // namespace dmlcpu
