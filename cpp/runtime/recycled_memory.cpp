#include "runtime/recycled_memory.h"

#include <bit>
#include <utility>

#include "runtime/brief_lock.h"

namespace dmlcpu {
namespace {

// What a process holds of results at most without using it.
constexpr std::size_t kMostKept = std::size_t{256} << 20;

// Blocks come in eight sizes from one power of two to the next, so that results which grow a little from one time to
// the next, such as the caches of a decoder, find one.
constexpr int kBitsOfSize = 4, kSizesOfPower = 1 << (kBitsOfSize - 1);
constexpr int kSizes = (std::bit_width(kMostKept) - kBitsOfSize + 1) * kSizesOfPower;

int shift_of(std::size_t size) { return static_cast<int>(std::bit_width(size)) - kBitsOfSize; }

// The size of a block for so many bytes, at most kMostKept and at least 8.
std::size_t block_size(std::size_t bytes) { return round_up(bytes, std::size_t{1} << shift_of(bytes)); }

// Which of the sizes it is.
int place_of(std::size_t size) {
  const int shift = shift_of(size);
  return shift * kSizesOfPower + static_cast<int>(size >> shift) - kSizesOfPower;
}

// Blocks that nobody uses: all in the order in which they were freed, and those of a size on a stack.
class KeptBlocks {
 public:
  // A block of that size, or up to a quarter larger; null if there is none.
  RecycledBlock* take(std::size_t size) noexcept {
    constexpr int kLarger = 2;
    const int place = place_of(size);
    RecycledBlock* found = nullptr;
    if (!try_hold()) return found;
    for (int i = place; found == nullptr && i <= place + kLarger && i < kSizes; ++i) found = stacks_[i];
    if (found != nullptr) remove(*found);
    lock_.release();
    return found;
  }

  // Keeps a block of at most kMostKept bytes; those that have been here the longest make room for it.
  void keep(RecycledBlock* block) noexcept {
    RecycledBlock* removed = block;  // a list by `older`
    if (try_hold()) {
      removed = nullptr;
      while (bytes_ + block->bytes.size() > kMostKept) {
        RecycledBlock* const oldest = oldest_;
        remove(*oldest);
        oldest->older = std::exchange(removed, oldest);
      }
      add(*block);
      lock_.release();
    }
    free_all(removed);
  }

  bool give_up() noexcept {
    if (!try_hold()) return false;
    RecycledBlock* removed = nullptr;
    while (oldest_ != nullptr) {
      RecycledBlock* const oldest = oldest_;
      remove(*oldest);
      oldest->older = std::exchange(removed, oldest);
    }
    lock_.release();
    const bool has_freed = removed != nullptr;
    free_all(removed);
    return has_freed;
  }

 private:
  bool try_hold() noexcept {
    return lock_.try_hold([this]() noexcept {
      for (RecycledBlock*& stack : stacks_) stack = nullptr;
      oldest_ = newest_ = nullptr;
      bytes_ = 0;
    });
  }

  static void free_all(RecycledBlock* blocks) noexcept {
    while (blocks != nullptr) delete std::exchange(blocks, blocks->older);
  }

  void add(RecycledBlock& block) noexcept {
    RecycledBlock*& stack = stacks_[place_of(block.bytes.size())];
    block.above = nullptr;
    block.below = stack;
    if (stack != nullptr) stack->above = &block;
    stack = &block;
    block.newer = nullptr;
    block.older = newest_;
    (newest_ == nullptr ? oldest_ : newest_->newer) = &block;
    newest_ = &block;
    bytes_ += block.bytes.size();
  }

  void remove(RecycledBlock& block) noexcept {
    (block.above == nullptr ? stacks_[place_of(block.bytes.size())] : block.above->below) = block.below;
    if (block.below != nullptr) block.below->above = block.above;
    (block.newer == nullptr ? newest_ : block.newer->older) = block.older;
    (block.older == nullptr ? oldest_ : block.older->newer) = block.newer;
    block.older = nullptr;
    bytes_ -= block.bytes.size();
  }

  BriefLock lock_;
  RecycledBlock* stacks_[kSizes] = {};  // the top of each, by the place of the size
  RecycledBlock *oldest_ = nullptr, *newest_ = nullptr;
  std::size_t bytes_ = 0;
};

constinit KeptBlocks kept;

}  // namespace

void RecycleBlock::operator()(RecycledBlock* block) const noexcept {
  if (block->bytes.size() <= kMostKept) return kept.keep(block);
  delete block;
}

bool give_up_recycled_memory() noexcept { return kept.give_up(); }

RecycledMemory recycled_memory(std::size_t bytes) {
  const std::size_t size = bytes < kRecycledSize ? kRecycledSize : bytes > kMostKept ? bytes : block_size(bytes);
  if (size <= kMostKept) {
    if (RecycledBlock* block = kept.take(size)) return RecycledMemory(block);
  }
  return RecycledMemory(new RecycledBlock{.bytes = AlignedBuffer(size)});
}

}  // namespace dmlcpu
