#include "runtime/worker_thread.h"

#include <algorithm>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

// While it lasts, threads that this one starts are started without signals.
class SignalsBlocked {
 public:
#if defined(__unix__) || defined(__APPLE__)
  SignalsBlocked() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
#endif
};

// A new thread may run where the one may that started it: this one also where the process's first thread may.
void take_processors_of_process() noexcept {
#if defined(__linux__)
  try {
    const std::vector<unsigned long> own = processors_of(0);
    std::vector<unsigned long> all = processors_of(getpid());
    if (all.size() != own.size()) return;
    std::ranges::transform(all, own, all.begin(), std::bit_or<>());
    // A sandbox may forbid to ask for what is so already.
    if (all == own) return;
    sched_setaffinity(0, all.size() * sizeof(unsigned long), reinterpret_cast<const cpu_set_t*>(all.data()));
  } catch (const std::bad_alloc&) {  // then it does without
  }
#endif
}

}  // namespace

void start_worker_thread(void (*body)(void* argument), void* argument) {
  [[maybe_unused]] const SignalsBlocked signals;
  std::thread([body, argument] {
    take_processors_of_process();
    body(argument);
  }).detach();
}

}  // namespace dmlcpu
