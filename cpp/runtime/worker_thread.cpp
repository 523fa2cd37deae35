#include "runtime/worker_thread.h"

#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

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

// Beside the processors of the thread that started this one.
void take_processors_of_process() noexcept {
#if defined(__linux__)
  cpu_set_t own, all;
  // Fails where there are more processors than a set has room for. A sandbox may forbid what changes nothing, too.
  if (sched_getaffinity(getpid(), sizeof all, &all) == 0 && sched_getaffinity(0, sizeof own, &own) == 0) {
    CPU_OR(&all, &all, &own);
    if (!CPU_EQUAL(&all, &own)) sched_setaffinity(0, sizeof all, &all);
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
