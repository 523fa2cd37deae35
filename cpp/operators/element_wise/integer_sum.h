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

#include <optional>

#include "kernels/add/add.h"

namespace dmlcpu {

// The integers that make the same codes as the parameters of the run, if some are found.
std::optional<IntegerSum> find_integers(const AddKernels& kernels, const AddRun& parameters);

}  // namespace dmlcpu
