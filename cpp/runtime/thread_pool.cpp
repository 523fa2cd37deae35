#include "runtime/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/float_environment.h"
#include "runtime/worker_thread.h"

namespace dmlcpu {
namespace {

// A share of a job's tasks: those from next to end are left.
struct alignas(kCacheLine) Share {
  std::atomic<std::size_t> next;
  std::size_t end;

  bool is_done() const { return next.load(std::memory_order_relaxed) >= end; }
};

// Participants beyond this many take from others' shares from the beginning: a job stands on its caller's stack.
constexpr int kMostShares = 64;

// Threads within a dispatch, and workers that help them.
std::atomic<int> busy_threads{0};
thread_local int busy_depth = 0;

int processor_count() {
  static const int count = usable_processor_count();
  return count;
}

// The numbers that a job's participants have: a worker's is the lowest that is free.
class Slots {
 public:
  int count() const { return count_; }

  int take() {
    std::size_t word = 0;
    while (taken_[word] == ~std::uint64_t{0}) ++word;
    const int bit = std::countr_one(taken_[word]);
    taken_[word] |= std::uint64_t{1} << bit;
    ++count_;
    return static_cast<int>(word) * kBits + bit;
  }

  void give_back(int slot) {
    taken_[static_cast<std::size_t>(slot / kBits)] &= ~(std::uint64_t{1} << slot % kBits);
    --count_;
  }

 private:
  static constexpr int kBits = 64;

  std::array<std::uint64_t, kMostThreads / kBits> taken_{1};  // slot 0 is the caller's
  int count_ = 1;
};

// One run_tasks call, on its caller's stack. The list links and the slots are guarded by the pool's mutex.
struct Job {
  TaskFunction function;
  void* argument;
  int max_helpers;
  int most_busy;  // helpers work while no more threads than this are busy
  int shares;
  Share share[kMostShares];
  Slots slots;
  std::atomic<int> helpers{0};  // workers inside; the caller may return only when it is 0
  Job* next = nullptr;

  Job(TaskFunction called, void* with, std::size_t tasks, int helpers_at_most, int busy_at_most)
      : function(called),
        argument(with),
        max_helpers(helpers_at_most),
        most_busy(busy_at_most),
        shares(std::min(helpers_at_most + 1, kMostShares)) {
    const auto count = static_cast<std::size_t>(shares);
    // The first tasks % count shares have one task more.
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      share[i].next.store(first, std::memory_order_relaxed);
      first += tasks / count + (i < tasks % count ? 1 : 0);
      share[i].end = first;
    }
  }

  bool has_tasks() const {
    return !std::all_of(share, share + shares, [](const Share& each) { return each.is_done(); });
  }
  bool has_room() const { return busy_threads.load(std::memory_order_relaxed) < most_busy; }
  bool lacks_helpers() const { return slots.count() <= max_helpers && has_tasks(); }

  // Returns false if a worker has made room before all tasks were begun.
  bool work(int slot) noexcept {
    for (int i = 0; i < shares; ++i) {
      Share& from = share[(slot + i) % shares];
      while (!from.is_done()) {
        if (slot != 0 && busy_threads.load(std::memory_order_relaxed) > most_busy) return false;
        const std::size_t task = from.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= from.end) break;
        function(argument, task, slot);
      }
    }
    return true;
  }
};

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// How long an idle worker watches for the next job before it sleeps: longer than most steps of a network that one
// thread computes alone, since to be woken takes a worker some 25 us, and its caller a system call.
constexpr auto kSpin = std::chrono::microseconds(500);

// How often a worker looks for room beside a job that lacks helpers.
constexpr auto kLookForRoom = std::chrono::milliseconds(1);

// Returns whether a condition comes true within some looks; else it has offered the processor to other threads. Where
// these are more than processors, what is awaited may be done by one of them that has none.
template <class Condition>
bool watch(const Condition& condition) {
  constexpr int kLooks = 32;
  for (int i = 0; i < kLooks; ++i) {
    if (condition()) return true;
    relax();
  }
  std::this_thread::yield();
  return false;
}

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
    while (!watch([&] { return job.helpers.load(std::memory_order_acquire) == 0; })) {
    }
  }

  std::mutex& mutex() { return mutex_; }

 private:
  // Called with the mutex held. A system that gives no more threads is no error: the caller works alone.
  void start_workers(int wanted) {
    while (workers_ < wanted) {
      try {
        start_worker_thread([](void* pool) { static_cast<Pool*>(pool)->worker_loop(); }, this);
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
      Job* const job = find_job([](const Job& each) { return each.has_room() && each.lacks_helpers(); });
      if (job == nullptr) {
        wait(lock);
      } else {
        help(*job, lock);
      }
    }
  }

  // Called and left with the mutex held.
  void help(Job& job, std::unique_lock<std::mutex>& lock) {
    const int slot = job.slots.take();
    job.helpers.fetch_add(1, std::memory_order_relaxed);
    bool is_done = false;
    {
      const BusyThread busy;
      lock.unlock();
      is_done = job.work(slot);
    }
    // Of a job that is done nobody takes a slot: its caller need not wait for the mutex.
    if (!is_done) {
      lock.lock();
      job.slots.give_back(slot);
    }
    job.helpers.fetch_sub(1, std::memory_order_release);
    if (is_done) lock.lock();
  }

  // Called with the mutex held. Returns null where there is no such job.
  template <class Condition>
  Job* find_job(const Condition& condition) const {
    Job* job = jobs_;
    while (job != nullptr && !condition(*job)) job = job->next;
    return job;
  }

  // Called and left with the mutex held, after every posted job has been looked at.
  void wait(std::unique_lock<std::mutex>& lock) {
    const unsigned seen = posted_.load(std::memory_order_relaxed);
    lock.unlock();
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    bool more = false;
    // Where all processors are busy, watching would take one of them away.
    while (!more && busy_threads.load(std::memory_order_relaxed) < processor_count() &&
           std::chrono::steady_clock::now() < deadline) {
      more = watch([&] { return posted_.load(std::memory_order_acquire) != seen; });
    }
    lock.lock();
    if (more) return;
    const auto has_more = [&] { return posted_.load(std::memory_order_relaxed) != seen; };
    // Nobody tells when there is room again: dispatches that end would have to look for who waits.
    if (find_job([](const Job& each) { return each.lacks_helpers(); }) != nullptr) {
      wake_.wait_for(lock, kLookForRoom, has_more);
    } else {
      wake_.wait(lock, has_more);
    }
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
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork([] { pool_instance->mutex().lock(); }, [] { pool_instance->mutex().unlock(); },
                   [] {
                     pool_instance = new Pool;
                     busy_threads.store(0, std::memory_order_relaxed);  // they stayed in the parent
                   });
#endif
    return true;
  }();
  static_cast<void>(created);
  return *pool_instance;
}

}  // namespace

BusyThread::BusyThread() noexcept {
  if (busy_depth++ == 0) busy_threads.fetch_add(1, std::memory_order_relaxed);
}
BusyThread::~BusyThread() {
  if (--busy_depth == 0) busy_threads.fetch_sub(1, std::memory_order_relaxed);
}

void create_thread_pool() {
  pool();
  processor_count();
}

void run_tasks(std::size_t task_count, int max_threads, TaskFunction function, void* argument) {
  const DefaultFloatEnvironment environment;
  const std::size_t helpers = task_count == 0 ? 0 : task_count - 1;
  const int most_helpers = std::min(max_threads, kMostThreads) - 1;
  const int max_helpers = static_cast<std::size_t>(most_helpers) < helpers ? most_helpers : static_cast<int>(helpers);
  const auto work_alone = [&] {
    for (std::size_t task = 0; task < task_count; ++task) function(argument, task, 0);
  };
  if (max_helpers <= 0) {
    work_alone();
    return;
  }
  const BusyThread busy;
  const int most_busy = std::max(max_threads, processor_count());
  if (busy_threads.load(std::memory_order_relaxed) >= most_busy) {
    work_alone();
    return;
  }
  Job job(function, argument, task_count, max_helpers, most_busy);
  pool().run(job);
}

}  // namespace dmlcpu
