#include "graph/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {

MemoryPlan plan_memory(const std::vector<BufferUse>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });

  MemoryPlan plan{.offsets = std::vector<std::size_t>(buffers.size()), .bytes = 0};
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const BufferUse& buffer = buffers[index];
    if (buffer.bytes == 0) break;  // as are all that follow
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      const BufferUse& use = buffers[other];
      if (use.last_step < buffer.first_step || buffer.last_step < use.first_step) continue;
      if (plan.offsets[other] >= offset && plan.offsets[other] - offset >= buffer.bytes) break;
      offset = std::max(offset, round_up(plan.offsets[other] + use.bytes, kAlignment));
    }
    constexpr std::size_t kMostBytes = PTRDIFF_MAX / 2;
    if (offset > kMostBytes || buffer.bytes > kMostBytes - offset) throw std::bad_alloc();
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + buffer.bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](std::size_t at) { return plan.offsets[at]; }),
                  index);
  }
  return plan;
}

}  // namespace dmlcpu
