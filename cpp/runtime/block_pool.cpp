#include "runtime/block_pool.h"

#include <algorithm>

namespace dmlcpu {

BlockPool::~BlockPool() {
  for (const std::atomic<AlignedBuffer*>& place : places_) delete place.load(std::memory_order_relaxed);
}

BlockPool::Block BlockPool::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  count(bytes);
  Block too_small;
  for (std::atomic<AlignedBuffer*>& place : places_) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    Block block(place.exchange(nullptr, std::memory_order_acquire));
    if (block == nullptr) continue;
    if (block->size() >= bytes) {
      keep(std::move(too_small));
      return block;
    }
    keep(std::exchange(too_small, std::move(block)));
  }
  if (too_small == nullptr) return std::make_unique<AlignedBuffer>(bytes);
  constexpr std::size_t kSlack = 4;  // of a growing graph the next one needs little more
  *too_small = AlignedBuffer();
  *too_small = AlignedBuffer(bytes + bytes / kSlack);
  return too_small;
}

void BlockPool::give_back(Block block) noexcept {
  if (block == nullptr) return;
  const std::size_t largest = std::max(largest_.load(std::memory_order_relaxed),  //
                                       largest_before_.load(std::memory_order_relaxed));
  if (block->size() / 2 <= largest) keep(std::move(block));
}

void BlockPool::keep(Block block) noexcept {
  if (block == nullptr) return;
  for (std::atomic<AlignedBuffer*>& place : places_) {
    AlignedBuffer* none = nullptr;
    if (place.load(std::memory_order_relaxed) == nullptr &&
        place.compare_exchange_strong(none, block.get(), std::memory_order_release, std::memory_order_relaxed)) {
      static_cast<void>(block.release());
      return;
    }
  }
}

// Where threads count at once, a window may begin a dispatch early or late.
void BlockPool::count(std::size_t bytes) noexcept {
  if (counted_.fetch_add(1, std::memory_order_relaxed) % kWindow == kWindow - 1) {
    largest_before_.store(largest_.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  std::size_t largest = largest_.load(std::memory_order_relaxed);
  while (largest < bytes && !largest_.compare_exchange_weak(largest, bytes, std::memory_order_relaxed)) {
  }
}

}  // namespace dmlcpu
