// Blocks of memory that graphs take for the time of a dispatch. Graphs that run one after the other, such as those of a
// model for texts of other lengths, take the same block: it is in the caches, and its pages are there.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/aligned_buffer.h"
#include "runtime/brief_lock.h"

namespace dmlcpu {

// As many blocks are kept as there were dispatches at once, each as large as the largest that it was needed for, and a
// quarter more at most.
// Who does not get the list of free ones allocates a block, and frees it again.
class BlockPool {
 public:
  // A block of at least so many bytes, uninitialised. May be called by any number of threads at once. Throws
  // std::bad_alloc.
  AlignedBuffer take(std::size_t bytes);
  void give_back(AlignedBuffer block) noexcept;

 private:
  BriefLock of_list_;
  std::vector<AlignedBuffer> free_;
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
