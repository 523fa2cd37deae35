#include "runtime/block_pool.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace dmlcpu {

AlignedBuffer BlockPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  AlignedBuffer found, too_small;
  if (lock_.hold()) {
    count(bytes);
    const auto fits =
        std::find_if(free_.rbegin(), free_.rend(), [&](const AlignedBuffer& block) { return block.size() >= bytes; });
    if (fits != free_.rend()) {
      found = std::move(*fits);
      free_.erase(std::next(fits).base());
    } else if (!free_.empty()) {
      too_small = std::move(free_.back());
      free_.pop_back();
    }
    lock_.release();
  }
  if (found.size() != 0) return found;
  constexpr std::size_t kSlack = 4;  // of a growing graph the next one needs little more
  const std::size_t slack = too_small.size() == 0 ? 0 : bytes / kSlack;
  too_small = AlignedBuffer();
  return AlignedBuffer(bytes + slack);
}

void BlockPool::give_back(AlignedBuffer block) noexcept {
  if (block.size() == 0 || !lock_.hold()) return;
  try {
    if (is_needed(block.size())) free_.push_back(std::move(block));
  } catch (const std::bad_alloc&) {  // then it is freed
  }
  lock_.release();
}

void BlockPool::count(std::size_t bytes) noexcept {
  if (counted_ == kWindow) {
    largest_before_ = std::exchange(largest_, 0);
    counted_ = 0;
  }
  ++counted_;
  largest_ = std::max(largest_, bytes);
}

}  // namespace dmlcpu
