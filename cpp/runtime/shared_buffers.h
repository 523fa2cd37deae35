// Buffers that are filled once and then only read, the same bytes kept once: what several graphs pack of one constant
// they share. Told apart by content, so that no packing has to say what it depends on.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

class SharedBuffers {
 public:
  // Returns a buffer of the same bytes that somebody still holds, or this one, which later calls may then find. May be
  // called by any number of threads at once. Throws std::bad_alloc, and has then kept nothing.
  std::shared_ptr<const AlignedBuffer> shared(AlignedBuffer buffer);

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<const AlignedBuffer>> by_hash_;
};

}  // namespace dmlcpu
