// The loop of element-wise operators on integers and conditions, which have no kernels of their own: an element of the
// output of one of each input, tensors of any strides. What they are for is small (token numbers, masks), so plain C++,
// which the compiler vectorizes where operands are neighbours or repeat.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

// Calls loop with std::true_type for each operand that repeats one element in a run, else std::false_type.
template <std::size_t kCount, class Loop, class... Known>
void with_repeats(const std::array<bool, kCount>& repeats, const Loop& loop, Known... known) {
  if constexpr (sizeof...(Known) == kCount) {
    loop(known...);
  } else if (repeats[sizeof...(Known)]) {
    with_repeats(repeats, loop, known..., std::true_type{});
  } else {
    with_repeats(repeats, loop, known..., std::false_type{});
  }
}

template <class Output, class... Inputs>
class ElementRuns {
 public:
  // Operand 0 of the runs is the output, the inputs follow.
  ElementRuns(const StridedRuns& runs, Output* output, const Inputs*... inputs)
      : runs_(runs), output_(output), inputs_(inputs...) {}

  template <class Function>
  void run(int num_threads, const Function& function) const {
    const StridedRuns::Tasks tasks = runs_.tasks(num_threads);
    parallel_for(tasks.count(), num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      const std::size_t end = piece.first_run + piece.run_count;
      for (std::size_t run = piece.first_run, rows = 0; run < end; run += rows) {
        rows = runs_.rows_from(run, end - run);
        run_rows(runs_.offsets(run), piece, rows, function, std::index_sequence_for<Inputs...>());
      }
    });
  }

 private:
  // Rows of a plane.
  template <class Function, std::size_t... kInputs>
  void run_rows(const StridedRuns::Offsets& offsets, const StridedRuns::Piece& piece, std::size_t rows,
                const Function& function, std::index_sequence<kInputs...>) const {
    const auto begin = static_cast<std::int64_t>(piece.begin);
    const std::size_t size = piece.size;
    const auto first = [&](auto* data, std::size_t operand, std::size_t row) {
      return data + offsets[operand] + begin * runs_.stride(operand) +
             static_cast<std::int64_t>(row) * runs_.row_stride(operand);
    };
    const bool plain = (runs_.stride(0) == 1 || size == 1) && (... && (runs_.stride(kInputs + 1) <= 1));
    if (!plain) {
      for (std::size_t row = 0; row < rows; ++row) {
        Output* const output = first(output_, 0, row);
        const auto inputs = std::tuple{first(std::get<kInputs>(inputs_), kInputs + 1, row)...};
        for (std::size_t i = 0; i < size; ++i) {
          const auto index = static_cast<std::int64_t>(i);
          output[index * runs_.stride(0)] = function(std::get<kInputs>(inputs)[index * runs_.stride(kInputs + 1)]...);
        }
      }
      return;
    }
    with_repeats(std::array{(runs_.stride(kInputs + 1) == 0)...}, [&](auto... repeats) {
      for (std::size_t row = 0; row < rows; ++row) {
        Output* __restrict results = first(output_, 0, row);
        const auto inputs = std::tuple{first(std::get<kInputs>(inputs_), kInputs + 1, row)...};
        for (std::size_t i = 0; i < size; ++i) {
          results[i] = function(std::get<kInputs>(inputs)[decltype(repeats)::value ? 0 : i]...);
        }
      }
    });
  }

  const StridedRuns& runs_;
  Output* output_;
  std::tuple<const Inputs*...> inputs_;
};

}  // namespace dmlcpu
