#include "runtime/scratch.h"

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

std::uint8_t* thread_scratch(std::size_t size) {
  thread_local AlignedBuffer buffer;
  if (buffer.size() < size) {
    buffer = AlignedBuffer();  // freed first: the old and the new never stand side by side
    buffer = AlignedBuffer(size);
  }
  return buffer.data();
}

}  // namespace dmlcpu
