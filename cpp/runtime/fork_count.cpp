#include "runtime/fork_count.h"

#include <atomic>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace dmlcpu {
namespace {

constinit std::atomic<unsigned> forks{0};

#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
#endif

}  // namespace

unsigned fork_count() noexcept { return forks.load(std::memory_order_relaxed); }

}  // namespace dmlcpu
