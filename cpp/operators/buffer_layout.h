// Where the parts of a buffer lie, such as an operator's scratch memory or a packed operand.
#pragma once

#include <cstddef>
#include <new>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

// Hands out consecutive 64-byte aligned parts of a buffer whose size is being counted: take() returns the offset of a
// part of count elements, size() the bytes of all so far. Throws std::bad_alloc where that is beyond the address space.
class BufferLayout {
 public:
  std::size_t take(std::size_t count, std::size_t element_bytes = 1) {
    std::size_t bytes = 0, padded = 0;
    const std::size_t offset = size_;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) ||
        __builtin_add_overflow(bytes, kAlignment - 1, &padded) ||
        __builtin_add_overflow(size_, padded / kAlignment * kAlignment, &size_)) {
      throw std::bad_alloc();
    }
    return offset;
  }
  std::size_t size() const { return size_; }
  // The bytes of count such buffers, one behind the other.
  std::size_t size_of(std::size_t count) const {
    BufferLayout all;
    all.take(count, size_);
    return all.size();
  }

 private:
  std::size_t size_ = 0;
};

}  // namespace dmlcpu
