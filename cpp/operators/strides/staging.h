// Kernels take contiguous elements. Where a tensor has others, a chunk of it passes through a small buffer on the
// stack, first or afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack/pack.h"
#include "runtime/data_type.h"

namespace dmlcpu {

// Bytes of a chunk: all buffers of an operator stay within half of a level-1 cache of 48 KiB.
inline constexpr std::size_t kChunkBytes = 8192;
// Elements of a chunk of any type, where parameters lie beside them.
inline constexpr std::size_t kChunk = 1024;

// A buffer for one chunk of any type.
struct alignas(64) ChunkBuffer {
  std::uint8_t bytes[kChunkBytes];
};

// Rows of a tensor, strides in elements.
struct Rows {
  std::size_t rows, columns;
  std::int64_t row_stride, column_stride;

  bool contiguous() const {
    return (columns == 1 || column_stride == 1) && (rows == 1 || row_stride == static_cast<std::int64_t>(columns));
  }
};

// The address of element index of a tensor's data.
inline const void* element(const void* data, DataType type, std::int64_t index) {
  return static_cast<const std::uint8_t*>(data) + index * static_cast<std::int64_t>(element_size(type));
}
inline void* element(void* data, DataType type, std::int64_t index) {
  return static_cast<std::uint8_t*>(data) + index * static_cast<std::int64_t>(element_size(type));
}

// The elements of rows from first on as one contiguous run: first itself where they are, else copied to the buffer,
// which they have to fit.
const void* gather(const void* first, DataType type, const Rows& rows, const PackKernels& kernels, ChunkBuffer& buffer);

// The way back: elements of the buffer to rows from first on.
void scatter(const ChunkBuffer& buffer, DataType type, void* first, const Rows& rows, const PackKernels& kernels);

// Codes step bytes apart, flipped; the kernel's contiguous copy where they are neighbours.
void copy_codes(const PackKernels& kernels, const std::uint8_t* source, std::int64_t step, std::int64_t count,
                std::uint8_t flip, std::uint8_t* target);

// count values from first on, stride elements apart, as float32: FLOAT16 widened, 32-bit integers rounded half to even.
void gather_as_float(const void* first, DataType type, std::int64_t stride, std::size_t count, float* values);

// One value as float32; otherwise where the tensor is absent (data is null).
float value_as_float(const void* data, DataType type, float otherwise = 0.0F);

}  // namespace dmlcpu
