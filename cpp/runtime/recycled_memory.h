// Memory of large results. The system takes blocks of this size back as soon as they are freed and hands out new ones
// page by page, cleared, which costs more than writing them: so the last one freed is kept for the next result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dmlcpu {

// From this size on a block is kept. C libraries themselves reuse smaller ones.
inline constexpr std::size_t kRecycledSize = std::size_t{16} << 20;
// Up to this size: what a process holds at most without using it.
inline constexpr std::size_t kLargestRecycledSize = std::size_t{256} << 20;

struct RecycleMemory {
  std::size_t size;  // of the whole block
  void operator()(std::uint8_t* bytes) const noexcept;
};
using RecycledMemory = std::unique_ptr<std::uint8_t, RecycleMemory>;

// At least size bytes, uninitialised, 64-byte aligned; any thread may ask for them and free them. Throws
// std::bad_alloc.
RecycledMemory recycled_memory(std::size_t size);

}  // namespace dmlcpu
