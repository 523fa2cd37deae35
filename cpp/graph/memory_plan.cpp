#include "graph/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

struct Bytes {
  std::size_t begin, end;
};

// Finds the bytes of buffers that are in use together with another one: of those that are for a few steps, as most are,
// it looks at the ones of these steps alone.
class PlacedBuffers {
 public:
  explicit PlacedBuffers(const std::vector<BufferUse>& buffers) {
    std::size_t steps = 0;
    for (const BufferUse& buffer : buffers) steps = std::max(steps, buffer.last_step + 1);
    latest_.assign(steps, kNone);
    brief_.reserve(buffers.size());
  }

  void add(const BufferUse& buffer, Bytes bytes) {
    if (buffer.last_step < buffer.first_step) return;  // no step touches it
    if (buffer.last_step - buffer.first_step >= kFew) return lasting_.push_back({buffer, bytes});
    brief_.push_back({buffer.last_step, bytes, std::exchange(latest_[buffer.first_step], brief_.size())});
  }

  void find_together_with(const BufferUse& use, std::vector<Bytes>& others) const {
    others.clear();
    for (const Lasting& other : lasting_) {
      if (other.use.first_step <= use.last_step && use.first_step <= other.use.last_step) others.push_back(other.bytes);
    }
    for (std::size_t step = use.first_step - std::min(use.first_step, kFew); step <= use.last_step; ++step) {
      for (std::size_t i = latest_[step]; i != kNone; i = brief_[i].before) {
        if (use.first_step <= brief_[i].last_step) others.push_back(brief_[i].bytes);
      }
    }
  }

 private:
  static constexpr std::size_t kFew = 16, kNone = SIZE_MAX;

  struct Lasting {
    BufferUse use;
    Bytes bytes;
  };
  struct Brief {
    std::size_t last_step;
    Bytes bytes;
    std::size_t before;  // the one that begins with the same step and was added before it
  };

  std::vector<Lasting> lasting_;
  std::vector<Brief> brief_;
  std::vector<std::size_t> latest_;  // by step, of those that begin with it the one that was added last
};

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferUse>& buffers) {
  std::vector<std::size_t> order;
  order.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes != 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return buffers[i].bytes; });

  MemoryPlan plan{.offsets = std::vector<std::size_t>(buffers.size()), .bytes = 0};
  PlacedBuffers placed(buffers);
  std::vector<Bytes> others;
  for (const std::size_t index : order) {
    const BufferUse& buffer = buffers[index];
    placed.find_together_with(buffer, others);
    std::ranges::sort(others, {}, &Bytes::begin);
    std::size_t offset = 0;
    for (const Bytes& other : others) {
      if (other.begin >= offset && other.begin - offset >= buffer.bytes) break;
      offset = std::max(offset, round_up(other.end, kAlignment));
    }
    constexpr std::size_t kMostBytes = PTRDIFF_MAX / 2;
    if (offset > kMostBytes || buffer.bytes > kMostBytes - offset) throw std::bad_alloc();
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + buffer.bytes);
    placed.add(buffer, {offset, offset + buffer.bytes});
  }
  return plan;
}

}  // namespace dmlcpu
