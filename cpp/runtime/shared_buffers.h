// Buffers that are filled once and then only read, the same bytes kept once: what several graphs pack of one constant
// they share. Told apart by content, so that no packing has to say what it depends on.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>

#include "runtime/aligned_buffer.h"
#include "runtime/brief_lock.h"

namespace dmlcpu {

class SharedBuffers {
 public:
  // Returns a buffer of the same bytes that somebody still holds, or this one, which later calls may then find: not if
  // another thread kept the lock for long, nor in a child of fork() what was shared before, if one held it just then.
  // May be called by any number of threads at once. Throws std::bad_alloc, and has then kept nothing.
  std::shared_ptr<const AlignedBuffer> shared(AlignedBuffer buffer);

 private:
  struct Entry {
    std::size_t hash;
    std::weak_ptr<const AlignedBuffer> buffer;
  };

  bool hold_lock() noexcept;
  void forget_all() noexcept;

  // Entries by what their hashes leave of a division by the number of lists. Every length of a text brings constants of
  // its own, such as masks, which plans by the hundred hold: one list of them all would take longer than packing.
  static constexpr std::size_t kLists = 256;

  BriefLock lock_;
  std::array<std::list<Entry>, kLists> entries_;
};

}  // namespace dmlcpu
