#include "runtime/recycled_memory.h"

#include <atomic>
#include <new>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

// A block that nobody uses begins with its size.
struct FreeBlock {
  std::size_t size;
};

// The block kept. Taken and put by one exchange, so that threads need no lock and a child of fork() finds it whole.
constinit std::atomic<FreeBlock*> kept{nullptr};

void release(FreeBlock* block) noexcept { ::operator delete(block, std::align_val_t{kAlignment}); }

}  // namespace

void RecycleMemory::operator()(std::uint8_t* bytes) const noexcept {
  FreeBlock* block = ::new (bytes) FreeBlock{size};
  if (size >= kRecycledSize && size <= kLargestRecycledSize) block = kept.exchange(block, std::memory_order_acq_rel);
  if (block != nullptr) release(block);
}

RecycledMemory recycled_memory(std::size_t size) {
  if (size >= kRecycledSize) {
    if (FreeBlock* block = kept.exchange(nullptr, std::memory_order_acq_rel)) {
      // One more than twice as large would be held for too little.
      if (block->size >= size && block->size / 2 <= size) {
        return RecycledMemory(reinterpret_cast<std::uint8_t*>(block), RecycleMemory{block->size});
      }
      release(block);
    }
  }
  const std::size_t whole = size < sizeof(FreeBlock) ? sizeof(FreeBlock) : size;
  auto* bytes = static_cast<std::uint8_t*>(::operator new(whole, std::align_val_t{kAlignment}));
  if (whole >= kRecycledSize) ask_for_large_pages(bytes, whole);
  return RecycledMemory(bytes, RecycleMemory{whole});
}

}  // namespace dmlcpu
