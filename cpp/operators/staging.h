// Kernels take contiguous runs. Where a tensor's run has another stride, a chunk of it passes through a small buffer on
// the stack, first or afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/data_type.h"

namespace dmlcpu {

// Elements of a chunk: with 4-byte elements all buffers of an operator stay within a quarter of an L1 cache.
inline constexpr std::size_t kChunk = 1024;

// A buffer for one chunk of any type.
struct alignas(64) ChunkBuffer {
  std::uint8_t bytes[kChunk * 4];
};

// The address of element index of a tensor's data.
inline const void* element(const void* data, DataType type, std::int64_t index) {
  return static_cast<const std::uint8_t*>(data) + index * static_cast<std::int64_t>(element_size(type));
}
inline void* element(void* data, DataType type, std::int64_t index) {
  return static_cast<std::uint8_t*>(data) + index * static_cast<std::int64_t>(element_size(type));
}

// count elements from first on, stride elements apart, as a contiguous run: first itself where it is one, else copied
// to the buffer (count at most kChunk).
const void* gather(const void* first, DataType type, std::int64_t stride, std::size_t count, ChunkBuffer& buffer);

// The way back: count elements of the buffer to first, stride elements apart.
void scatter(const ChunkBuffer& buffer, DataType type, void* first, std::int64_t stride, std::size_t count);

// count values from first on, stride elements apart, as float32: FLOAT16 widened, 32-bit integers rounded half to even.
void gather_as_float(const void* first, DataType type, std::int64_t stride, std::size_t count, float* values);

// One value as float32; otherwise where the tensor is absent (data is null).
float value_as_float(const void* data, DataType type, float otherwise = 0.0F);

}  // namespace dmlcpu
