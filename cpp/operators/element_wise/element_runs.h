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
    parallel_for(runs_.task_count(), num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        run_piece(runs_.offsets(piece.first_run + r), piece, function, std::index_sequence_for<Inputs...>());
      }
    });
  }

 private:
  template <class Function, std::size_t... kInputs>
  void run_piece(const StridedRuns::Offsets& offsets, const StridedRuns::Piece& piece, const Function& function,
                 std::index_sequence<kInputs...>) const {
    const auto begin = static_cast<std::int64_t>(piece.begin);
    const auto first = [&](auto* data, std::size_t operand) {
      return data + offsets[operand] + begin * runs_.stride(operand);
    };
    Output* const output = first(output_, 0);
    const bool plain = (runs_.stride(0) == 1 || piece.size == 1) && (... && (runs_.stride(kInputs + 1) <= 1));
    if (!plain) {
      for (std::size_t i = 0; i < piece.size; ++i) {
        const auto index = static_cast<std::int64_t>(i);
        output[index * runs_.stride(0)] =
            function(first(std::get<kInputs>(inputs_), kInputs + 1)[index * runs_.stride(kInputs + 1)]...);
      }
      return;
    }
    with_repeats(std::array{(runs_.stride(kInputs + 1) == 0)...}, [&](auto... repeats) {
      Output* __restrict results = output;
      const auto inputs = std::tuple{first(std::get<kInputs>(inputs_), kInputs + 1)...};
      for (std::size_t i = 0; i < piece.size; ++i) {
        results[i] = function(std::get<kInputs>(inputs)[decltype(repeats)::value ? 0 : i]...);
      }
    });
  }

  const StridedRuns& runs_;
  Output* output_;
  std::tuple<const Inputs*...> inputs_;
};

}  // namespace dmlcpu
