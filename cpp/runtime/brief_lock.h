// A lock for lists that threads hold for some tens of nanoseconds, or for microseconds where whoever waits tries again.
// Nobody waits long for it: in a child of fork() the thread that holds it may not exist, so who uses it has another
// way.
#pragma once

#include <atomic>

namespace dmlcpu {

class BriefLock {
 public:
  // Whether the lock is held now; release() it then.
  [[nodiscard]] bool hold() noexcept {
    constexpr int kAttempts = 2000;  // some microseconds
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (!held_.test_and_set(std::memory_order_acquire)) return true;
    }
    return false;
  }
  void release() noexcept { held_.clear(std::memory_order_release); }
  bool is_held() const noexcept { return held_.test(std::memory_order_acquire); }

 private:
  std::atomic_flag held_;
};

}  // namespace dmlcpu
