// A lock for what threads hold for some tens of nanoseconds, or for microseconds where whoever waits tries again.
// Nobody waits long for it: who cannot have it has another way.
#pragma once

#include <atomic>

#include "runtime/fork_count.h"

namespace dmlcpu {

class BriefLock {
 public:
  // Whether the lock is held now; release() it then. In a child of fork() the thread that held it may not exist: then
  // begin_anew() is called first, as what it was about to change is of no use.
  template <class BeginAnew>
  [[nodiscard]] bool try_hold(const BeginAnew& begin_anew) noexcept {
    constexpr int kAttempts = 2000;  // some microseconds
    const unsigned own = fork_count() + 1;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      unsigned holder = kNobody;
      if (holder_.compare_exchange_weak(holder, own, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      if (holder == kNobody || holder == own) continue;
      if (holder_.compare_exchange_strong(holder, own, std::memory_order_acquire, std::memory_order_relaxed)) {
        begin_anew();
        return true;
      }
    }
    return false;
  }
  void release() noexcept { holder_.store(kNobody, std::memory_order_release); }

 private:
  static constexpr unsigned kNobody = 0;

  std::atomic<unsigned> holder_{kNobody};  // the fork count of its process, from 1
};

}  // namespace dmlcpu
