// One block of memory for all values between the nodes of a graph: buffers that are never in use at once share bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace dmlcpu {

// A buffer, and the first and last step that touch it.
struct BufferUse {
  std::size_t bytes;
  std::size_t first_step, last_step;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // of each buffer, multiples of kAlignment
  std::size_t bytes;                 // of the block
};

// Largest buffers first, each at the lowest offset that is free during its steps: not always the least memory, but near
// it. Throws std::bad_alloc if the size is beyond the address space.
MemoryPlan plan_memory(const std::vector<BufferUse>& buffers);

}  // namespace dmlcpu
