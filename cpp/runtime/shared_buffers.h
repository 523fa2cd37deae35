// Buffers that are filled once and then only read, the same bytes kept once: what several graphs pack of one constant
// they share. Told apart by content, so that no packing has to say what it depends on.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "runtime/aligned_buffer.h"
#include "runtime/brief_lock.h"

namespace dmlcpu {

class SharedBuffers {
 public:
  // Returns a buffer of the same bytes that somebody still holds, or this one, which later calls may then find. May be
  // called by any number of threads at once, and in a child of fork(), where it may share nothing. Throws
  // std::bad_alloc, and has then kept nothing.
  std::shared_ptr<const AlignedBuffer> shared(AlignedBuffer buffer);

 private:
  struct Entry {
    std::size_t hash;
    std::weak_ptr<const AlignedBuffer> buffer;
  };

  bool hold_lock() noexcept;

  BriefLock lock_;
  std::list<Entry> entries_;
};

}  // namespace dmlcpu
