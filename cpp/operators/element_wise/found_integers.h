// The integers of one operator, which are looked for once (integer_sum.h, integer_product.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>

#include "operators/element_wise/integer_product.h"
#include "operators/element_wise/integer_sum.h"
#include "runtime/brief_lock.h"
#include "runtime/fork_count.h"

namespace dmlcpu {

// Of the parameters of the last dispatch. Kernels and Run are AddKernels and AddRun, or those of products. Any number
// of threads at once.
template <class Kernels, class Run>
class FoundIntegers {
 public:
  using Function = void (*)(const Run& run) noexcept;

  explicit FoundIntegers(const Kernels& kernels) : kernels_(kernels) {}

  // The function for so many codes by the parameters of the run, which gets the integers if there are. They are looked
  // for once, when parameters have come again and 2^18 codes have been computed by them: whoever changes them each time
  // never pays for it.
  Function function_for(Run& run, std::size_t count) {
    constexpr std::size_t kLeastComputed = 1 << 18;
    if (!try_hold()) return kernels_.run;
    if (!are_same(last_, run)) {
      last_ = {run.a_parameters, run.b_parameters, run.output_parameters};
      forget();
    }
    computed_ = std::min(computed_ + count, kLeastComputed);
    const bool looks = comes_again_ && looking_ != fork_count() && !has_looked_ && computed_ == kLeastComputed;
    if (looks) looking_ = fork_count();
    comes_again_ = true;
    std::optional<Integers> integers = found_;
    lock_.release();

    if (looks) {
      try {
        integers = find_integers(kernels_, run);
      } catch (const std::bad_alloc&) {  // floats need no memory
        return kernels_.run;
      }
      if (try_hold()) {
        if (are_same(last_, run)) {
          found_ = integers;
          has_looked_ = true;
        }
        lock_.release();
      }
    }
    if (!integers) return kernels_.run;
    run.integers = *integers;
    return kernels_.run_integers;
  }

  // How the last dispatch is computed, for a description.
  const char* words() {
    constexpr const char* kInFloats = "in floats, until parameters have come again";
    if (!try_hold()) return kInFloats;
    const char* const words = found_        ? "in integers, which make the same codes of all pairs"
                              : has_looked_ ? "in floats, as integers make other codes of some pairs"
                                            : kInFloats;
    lock_.release();
    return words;
  }

 private:
  using Operand = decltype(Run::a_parameters);
  using Integers = decltype(Run::integers);

  struct Parameters {
    Operand a, b, output;
  };

  static bool are_same(const Parameters& parameters, const Run& run) {
    const auto is_same = [](const Operand& one, const Operand& other) {
      return one.scale == other.scale && one.zero_point == other.zero_point && one.flip == other.flip;
    };
    return is_same(parameters.a, run.a_parameters) && is_same(parameters.b, run.b_parameters) &&
           is_same(parameters.output, run.output_parameters);
  }

  bool try_hold() noexcept {
    return lock_.try_hold([this]() noexcept { forget(); });
  }

  void forget() noexcept {
    comes_again_ = has_looked_ = false;
    looking_.reset();
    computed_ = 0;
    found_.reset();
  }

  const Kernels& kernels_;
  BriefLock lock_;
  Parameters last_ = {};
  bool comes_again_ = false, has_looked_ = false;
  std::optional<unsigned> looking_;  // the fork count of who looks: no child ends what a parent began
  std::size_t computed_ = 0;
  std::optional<Integers> found_;
};

}  // namespace dmlcpu
