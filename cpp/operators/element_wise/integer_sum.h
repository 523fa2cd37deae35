// Quantized sums by a product of integers (kernels/add), where these make the same codes.
//
// With a and b in units of the output's scale, a sum is
//
//   a * a_scale / output_scale + b * b_scale / output_scale = (a * a_factor + b * b_factor) * multiplier
//
// if the factors are to each other as the scales are. The closest fraction of integers whose sum is at most 20480
// typically is within 2^-28 of that, and float32 arithmetic rounds by more: whether the codes are the same is found by
// trying all 65536 pairs. Of parameters drawn at random 98 of 100 have integers. Where scales are in simple relations,
// such as 1 to 3 to 2, many sums lie at a tie, which roundings decide: then there often are none. Where these relations
// are powers of two there are, if the output's zero point is even: it is added before the rounding to even.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/add/add.h"
#include "runtime/brief_lock.h"

namespace dmlcpu {

// The integers that make the same codes as the parameters of the run, if some are found: up to 20 are tried, each by
// the time of adding 65536 codes at most.
std::optional<IntegerSum> find_integer_sum(const AddKernels& kernels, const AddRun& parameters);

// The integers of one operator, for the parameters of its last dispatch. Any number of threads at once.
class IntegerSums {
 public:
  explicit IntegerSums(const AddKernels& kernels) : kernels_(kernels) {}

  // The function that adds so many codes by the parameters of the run, which gets the integers if there are. They are
  // looked for once, when parameters have come again and 2^18 codes have been added by them: whoever changes them each
  // time never pays for it.
  AddFunction function_for(AddRun& run, std::size_t count);

  // How sums are computed by the parameters of the last dispatch, for a description.
  const char* words();

 private:
  struct Parameters {
    AddOperand a, b, output;
  };
  static bool are_same(const Parameters& parameters, const AddRun& run);
  bool try_hold() noexcept;
  void forget() noexcept;

  const AddKernels& kernels_;
  BriefLock lock_;
  Parameters last_ = {};
  bool comes_again_ = false, has_looked_ = false;
  std::optional<unsigned> looking_;  // the fork count of who looks: no child ends what a parent began
  std::size_t added_ = 0;
  std::optional<IntegerSum> found_;
};

}  // namespace dmlcpu
