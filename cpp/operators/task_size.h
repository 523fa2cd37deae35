// How much of a tensor a task has.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/aligned_buffer.h"
#include "runtime/cache_line.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

// Tasks of the most elements take some ten microseconds: what is prepared for each is little beside them. Those of the
// least pay for being handed to a worker that watches (1 us).
inline constexpr std::size_t kMostElementsOfTask = 65536, kLeastElementsOfTask = 8192;

// Elements of a task, of so many in all: fewer than the most where each thread would not have its number of tasks. A
// multiple of a cache line's bytes.
inline std::size_t elements_of_task(double elements, int num_threads) {
  static_assert(kLeastElementsOfTask % kCacheLine == 0 && kMostElementsOfTask % kCacheLine == 0);
  if (num_threads == 1) return kMostElementsOfTask;
  const double share = std::clamp(elements / (static_cast<double>(num_threads) * kTasksPerThread),
                                  static_cast<double>(kLeastElementsOfTask), static_cast<double>(kMostElementsOfTask));
  return round_up(static_cast<std::size_t>(share), kCacheLine);
}

// Rows of a task, of so many in all that have so many elements each: at least one.
inline std::size_t rows_of_task(double rows, double elements_of_row, int num_threads) {
  const auto elements = static_cast<double>(elements_of_task(rows * elements_of_row, num_threads));
  return std::max(static_cast<std::size_t>(elements / elements_of_row), std::size_t{1});
}

}  // namespace dmlcpu
