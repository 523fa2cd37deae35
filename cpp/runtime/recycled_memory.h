// Memory of large results. The system takes blocks of this size back as soon as they are freed and hands out new ones
// page by page, cleared, which costs more than writing them: so those freed last are kept for the next results.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

// From this size on a block is kept; of smaller ones C libraries take care themselves.
inline constexpr std::size_t kRecycledSize = std::size_t{32} << 10;

struct RecycledBlock {
  AlignedBuffer bytes;
  // Of one that is kept, its neighbours among all and among those of its size.
  RecycledBlock *older = nullptr, *newer = nullptr, *below = nullptr, *above = nullptr;
};

struct RecycleBlock {
  void operator()(RecycledBlock* block) const noexcept;
};
using RecycledMemory = std::unique_ptr<RecycledBlock, RecycleBlock>;

// Frees the blocks that nobody uses, unless another thread is at them just then; whether any were freed. For who is
// short of memory.
bool give_up_recycled_memory() noexcept;

// At least size bytes, which is not 0, uninitialised; any thread may ask for them and free them. Throws std::bad_alloc.
RecycledMemory recycled_memory(std::size_t size);

}  // namespace dmlcpu
