// Blocks of memory that graphs take for the time of a dispatch. Graphs that run one after the other, such as those of a
// model for texts of other lengths, take the same block: it is in the caches, and its pages are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/aligned_buffer.h"
#include "runtime/brief_lock.h"

namespace dmlcpu {

// As many blocks are kept as there were dispatches at once, each as large as the largest that it was needed for, and a
// quarter more at most. A block that is given back is freed if it is more than twice as large as the largest request of
// the last 64 to 128 dispatches, such as a long prompt's amid tokens. A thread that cannot take the lock allocates a
// block, or frees the one that it gives back.
class BlockPool {
 public:
  // A block of at least so many bytes, uninitialised. May be called by any number of threads at once. Throws
  // std::bad_alloc.
  AlignedBuffer take(std::size_t bytes);
  void give_back(AlignedBuffer block) noexcept;

 private:
  static constexpr int kWindow = 64;  // dispatches

  void count(std::size_t bytes) noexcept;
  bool is_needed(std::size_t size) const noexcept { return size / 2 <= std::max(largest_, largest_before_); }

  BriefLock lock_;  // of all that follows
  std::vector<AlignedBuffer> free_;
  std::size_t largest_ = 0, largest_before_ = 0;  // taken in this window, and in the one before
  int counted_ = 0;                               // in this window
};

// A block for the time of a dispatch.
class BlockLease {
 public:
  BlockLease(BlockPool& pool, std::size_t bytes) : pool_(pool), block_(pool.take(bytes)) {}
  ~BlockLease() { pool_.give_back(std::move(block_)); }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

  std::uint8_t* data() const { return block_.data(); }

 private:
  BlockPool& pool_;
  AlignedBuffer block_;
};

}  // namespace dmlcpu
