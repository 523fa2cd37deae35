// Threads. One pool a process, asleep when idle, shared by all devices.
//
// A call is a job of numbered tasks. The calling thread takes part and never waits for a worker to begin, so a job
// makes progress whatever the workers do: several callers cannot deadlock, and each gets the workers that are free.
// Workers are started when first needed, as many as the widest job asked for, never more. They help while processors
// are left: callers that keep all of them busy work alone, undisturbed. A worker that has made room for a caller comes
// back to a job that is not done when there is room again. They take no signals, and a caller that is bound to a
// processor does not bind them. After fork() the child begins with an empty pool.
//
// Each participant has a share of the tasks of its own, and takes from others' shares when it is done:
//
//   0 1 2 3 | 4 5 6 7 | 8 9 10 11         the shares of three participants
//
// So neighbouring tasks run on one core, and the same part of a tensor mostly on the core that has just computed what
// it reads: the part of an image that one layer wrote, or a phase before, is in that core's cache.
#pragma once

#include <cstddef>

namespace dmlcpu {

// Enough for any machine, and few enough that scratch memory a thread does not overflow.
inline constexpr int kMostThreads = 1024;

// Creates the pool, without threads, and counts the processors. Called while only one thread runs: a fork() amid the
// first job would find the pool half made, or the count.
void create_thread_pool();

// A dispatch or the run of a graph: while it lasts, its thread keeps a processor busy, between its jobs as well.
// Within another one it has no effect.
class BusyThread {
 public:
  BusyThread() noexcept;
  ~BusyThread();
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;
};

// A plain function and its argument rather than std::function: nothing is allocated a dispatch.
// slot is the participant's number within the job, 0 for the caller, below the max_threads asked for.
using TaskFunction = void (*)(void* argument, std::size_t task, int slot) noexcept;

// Tasks that work is cut into for each thread, where it can be, so that none waits long for another.
inline constexpr int kTasksPerThread = 4;

// Runs task 0 .. task_count - 1 once each, on at most max_threads threads and kMostThreads, and returns when all are
// done. Every participant computes under DefaultFloatEnvironment. If no worker can be started, the caller does the work
// alone.
void run_tasks(std::size_t task_count, int max_threads, TaskFunction function, void* argument);

// The same with any callable: body(task, slot).
template <class Body>
void parallel_for(std::size_t task_count, int max_threads, const Body& body) {
  run_tasks(
      task_count, max_threads,
      [](void* argument, std::size_t task, int slot) noexcept { (*static_cast<const Body*>(argument))(task, slot); },
      const_cast<Body*>(&body));
}

}  // namespace dmlcpu
