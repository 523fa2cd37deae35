#include "runtime/thread_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#if defined(__unix__)
#include <pthread.h>
#endif

#include "runtime/float_environment.h"

namespace dmlcpu {
namespace {

// One run_tasks call, on its caller's stack. The list links and the counts are guarded by the pool's mutex.
struct Job {
  TaskFunction function;
  void* argument;
  std::size_t task_count;
  int max_helpers;
  std::atomic<std::size_t> next_task{0};
  int slots_taken = 1;          // slot 0 is the caller's
  std::atomic<int> helpers{0};  // workers inside; the caller may return only when it is 0
  Job* next = nullptr;

  bool wants_help() const {
    return slots_taken <= max_helpers && next_task.load(std::memory_order_relaxed) < task_count;
  }

  void work(int slot) noexcept {
    for (;;) {
      const std::size_t task = next_task.fetch_add(1, std::memory_order_relaxed);
      if (task >= task_count) return;
      function(argument, task, slot);
    }
  }
};

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// How long an idle worker watches for the next job before it sleeps: about the gap between two layers of a network,
// well below what a person or a scheduler notices.
constexpr auto kSpin = std::chrono::microseconds(50);

class Pool {
 public:
  void run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      start_workers(job.max_helpers);
      job.next = jobs_;
      jobs_ = &job;
      posted_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      for (Job** link = &jobs_; *link != nullptr; link = &(*link)->next) {
        if (*link == &job) {
          *link = job.next;
          break;
        }
      }
    }
    // No worker can enter any more; those inside are finishing their last task.
    while (job.helpers.load(std::memory_order_acquire) != 0) relax();
  }

  std::mutex& mutex() { return mutex_; }

 private:
  // Called with the mutex held. A system that gives no more threads is no error: the caller works alone.
  void start_workers(int wanted) {
    while (workers_ < wanted) {
      try {
        std::thread([this] { worker_loop(); }).detach();
      } catch (const std::exception&) {  // no thread, or no memory for one
        return;
      }
      ++workers_;
    }
  }

  void worker_loop() {
    const DefaultFloatEnvironment environment;
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = jobs_;
      while (job != nullptr && !job->wants_help()) job = job->next;
      if (job == nullptr) {
        wait(lock);
        continue;
      }
      const int slot = job->slots_taken++;
      job->helpers.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      job->work(slot);
      job->helpers.fetch_sub(1, std::memory_order_release);
      lock.lock();
    }
  }

  // Called and left with the mutex held, after every posted job has been looked at.
  void wait(std::unique_lock<std::mutex>& lock) {
    const unsigned seen = posted_.load(std::memory_order_relaxed);
    lock.unlock();
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    bool more = false;
    while (!more && std::chrono::steady_clock::now() < deadline) {
      for (int i = 0; i < 32 && !more; ++i) {
        relax();
        more = posted_.load(std::memory_order_acquire) != seen;
      }
    }
    lock.lock();
    if (!more) wake_.wait(lock, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Job* jobs_ = nullptr;
  int workers_ = 0;
  std::atomic<unsigned> posted_{0};
};

// The pool is never destroyed: its workers are detached and may still sleep in it while the process exits. After
// fork() the parent's workers do not exist in the child, so the child takes a fresh pool and forgets the old one.
Pool* pool_instance = nullptr;

Pool& pool() {
  static const bool created = [] {
    pool_instance = new Pool;
#if defined(__unix__)
    pthread_atfork([] { pool_instance->mutex().lock(); }, [] { pool_instance->mutex().unlock(); },
                   [] { pool_instance = new Pool; });
#endif
    return true;
  }();
  static_cast<void>(created);
  return *pool_instance;
}

}  // namespace

void create_thread_pool() { pool(); }

void run_tasks(std::size_t task_count, int max_threads, TaskFunction function, void* argument) {
  const DefaultFloatEnvironment environment;
  const std::size_t helpers = task_count == 0 ? 0 : task_count - 1;
  const int max_helpers =
      static_cast<std::size_t>(max_threads - 1) < helpers ? max_threads - 1 : static_cast<int>(helpers);
  if (max_helpers <= 0) {
    for (std::size_t task = 0; task < task_count; ++task) function(argument, task, 0);
    return;
  }
  Job job{.function = function, .argument = argument, .task_count = task_count, .max_helpers = max_helpers};
  pool().run(job);
}

}  // namespace dmlcpu
