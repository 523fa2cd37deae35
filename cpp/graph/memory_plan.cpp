#include "graph/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

// Finds the buffers that are in use together with another one: of those that are for a few steps, as most are, it looks
// at the ones of these steps alone.
class PlacedBuffers {
 public:
  explicit PlacedBuffers(const std::vector<BufferUse>& buffers) : buffers_(buffers), before_(buffers.size(), kNone) {
    std::size_t steps = 0;
    for (const BufferUse& buffer : buffers) steps = std::max(steps, buffer.last_step + 1);
    latest_.assign(steps, kNone);
  }

  void add(std::size_t buffer) {
    const auto [bytes, first_step, last_step] = buffers_[buffer];
    if (last_step < first_step) return;  // no step touches it
    if (last_step - first_step >= kFew) return lasting_.push_back(buffer);
    before_[buffer] = std::exchange(latest_[first_step], buffer);
  }

  void find_together_with(const BufferUse& use, std::vector<std::size_t>& others) const {
    others.clear();
    for (const std::size_t other : lasting_) {
      if (buffers_[other].first_step <= use.last_step && use.first_step <= buffers_[other].last_step) {
        others.push_back(other);
      }
    }
    for (std::size_t step = use.first_step - std::min(use.first_step, kFew); step <= use.last_step; ++step) {
      for (std::size_t other = latest_[step]; other != kNone; other = before_[other]) {
        if (use.first_step <= buffers_[other].last_step) others.push_back(other);
      }
    }
  }

 private:
  static constexpr std::size_t kFew = 16, kNone = SIZE_MAX;

  const std::vector<BufferUse>& buffers_;
  std::vector<std::size_t> lasting_;
  std::vector<std::size_t> latest_;  // by step, the buffer that begins with it and was added last
  std::vector<std::size_t> before_;  // by buffer, the one that was before it
};

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferUse>& buffers) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes != 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return buffers[i].bytes; });

  MemoryPlan plan{.offsets = std::vector<std::size_t>(buffers.size()), .bytes = 0};
  PlacedBuffers placed(buffers);
  std::vector<std::size_t> others;
  for (const std::size_t index : order) {
    const BufferUse& buffer = buffers[index];
    placed.find_together_with(buffer, others);
    std::ranges::sort(others, {}, [&](std::size_t other) { return plan.offsets[other]; });
    std::size_t offset = 0;
    for (const std::size_t other : others) {
      if (plan.offsets[other] >= offset && plan.offsets[other] - offset >= buffer.bytes) break;
      offset = std::max(offset, round_up(plan.offsets[other] + buffers[other].bytes, kAlignment));
    }
    constexpr std::size_t kMostBytes = PTRDIFF_MAX / 2;
    if (offset > kMostBytes || buffer.bytes > kMostBytes - offset) throw std::bad_alloc();
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + buffer.bytes);
    placed.add(index);
  }
  return plan;
}

}  // namespace dmlcpu
