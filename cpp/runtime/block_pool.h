// Blocks of memory that graphs take for the time of a dispatch. Graphs that run one after the other, such as those of a
// model for texts of other lengths, take the same block: it is in the caches, and its pages are there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

// As many blocks are kept as there were dispatches at once, up to kMostKept, each as large as the largest that it was
// needed for, and a quarter more at most. A block that is given back is freed if it is more than twice as large as the
// largest request of the last 64 to 128 dispatches, such as a long prompt's amid tokens. There is no lock, which a
// thread could hold that does not exist in a child of fork().
class BlockPool {
 public:
  static constexpr std::size_t kMostKept = 64;
  using Block = std::unique_ptr<AlignedBuffer>;

  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block of at least so many bytes, uninitialised; null for none. May be called by any number of threads at once.
  // Throws std::bad_alloc.
  Block take(std::size_t bytes);
  void give_back(Block block) noexcept;

 private:
  static constexpr unsigned kWindow = 64;  // dispatches

  void keep(Block block) noexcept;
  void count(std::size_t bytes) noexcept;

  std::array<std::atomic<AlignedBuffer*>, kMostKept> places_{};  // of blocks that are kept; null where there is none
  std::atomic<std::size_t> largest_{0}, largest_before_{0};      // taken in this window, and in the one before
  std::atomic<unsigned> counted_{0};
};

// A block for the time of a dispatch.
class BlockLease {
 public:
  BlockLease(BlockPool& pool, std::size_t bytes) : pool_(pool), block_(pool.take(bytes)) {}
  ~BlockLease() { pool_.give_back(std::move(block_)); }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

  std::uint8_t* data() const { return block_ == nullptr ? nullptr : block_->data(); }

 private:
  BlockPool& pool_;
  BlockPool::Block block_;
};

}  // namespace dmlcpu
