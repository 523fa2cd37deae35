// Planes of so few elements that a call of a kernel for each would take most of the time: many of them are brought
// together, so that a kernel takes them as one run.
//
//   {2, 9216, 3, 2} of {9216, 3, 1} and {2, 1, 3, 2}    chunks of 341 planes of 3 rows of 2 elements
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "operators/strides/element_rows.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class ShortPlanes {
 public:
  // A chunk of each operand fits a ChunkBuffer.
  ShortPlanes(const StridedRuns& runs, std::size_t element_bytes)
      : runs_(runs), chunk_planes_(kChunkBytes / element_bytes / plane()) {}

  static bool suits(const StridedRuns& runs) {
    constexpr std::size_t kFew = 64;  // elements
    return runs.rank() > 2 && runs.length() * runs.rows() <= kFew && runs.size(2) >= 16;
  }

  // visit(offsets, planes) of chunks that cover the tensors; offsets are of their first elements.
  template <class Visit>
  void run(int num_threads, const Visit& visit) const {
    const auto along = static_cast<std::size_t>(runs_.size(2));
    const std::size_t together = elements_of_task(runs_.elements(), num_threads) / plane();
    const std::size_t tasks = (along + together - 1) / together;
    const std::size_t runs_along = along * runs_.rows();
    parallel_for(runs_.count() / runs_along * tasks, num_threads, [&](std::size_t task, int) noexcept {
      const std::size_t first = task % tasks * together, end = std::min(first + together, along);
      for (std::size_t at = first; at < end; at += chunk_planes_) {
        visit(runs_.offsets(task / tasks * runs_along + at * runs_.rows()), std::min(chunk_planes_, end - at));
      }
    });
  }

  std::size_t plane() const { return runs_.length() * runs_.rows(); }  // its elements

  // Whether an operand's planes follow one another as one long run.
  bool dense(std::size_t operand) const {
    return runs_.dense(operand) && runs_.stride(operand, 2) == static_cast<std::int64_t>(plane());
  }

  // Copies an operand's elements of some planes together, or back.
  template <class Element>
  void gather(std::size_t operand, const Element* first, std::size_t planes, Element* together) const {
    for_each_place(operand, [&](std::int64_t offset, std::int64_t place) {
      copy_steps(first + offset, runs_.stride(operand, 2), together + place, static_cast<std::int64_t>(plane()),
                 static_cast<std::int64_t>(planes));
    });
  }
  template <class Element>
  void scatter(std::size_t operand, const Element* together, std::size_t planes, Element* first) const {
    for_each_place(operand, [&](std::int64_t offset, std::int64_t place) {
      copy_steps(together + place, static_cast<std::int64_t>(plane()), first + offset, runs_.stride(operand, 2),
                 static_cast<std::int64_t>(planes));
    });
  }

 private:
  // visit(offset of an operand, place of all that are brought together) for the elements of a plane.
  template <class Visit>
  void for_each_place(std::size_t operand, const Visit& visit) const {
    const auto columns = static_cast<std::int64_t>(runs_.length()), rows = static_cast<std::int64_t>(runs_.rows());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        visit(i * runs_.row_stride(operand) + j * runs_.stride(operand), i * columns + j);
      }
    }
  }

  const StridedRuns& runs_;
  std::size_t chunk_planes_;
};

}  // namespace dmlcpu
