// Quantized products of codes as integers (kernels/multiply), where these make the same codes.
//
//   (a * a_scale) * (b * b_scale) / output_scale = (a * b) * multiplier
//
// float32 arithmetic rounds the left side three times: whether the codes are the same is found by trying all 65536
// pairs. Of parameters drawn at random 97 of 100 have integers.
#pragma once

#include <optional>

#include "kernels/multiply/multiply.h"

namespace dmlcpu {

// The integers that make the same codes as the parameters of the run, if some are found.
std::optional<IntegerProduct> find_integers(const MultiplyKernels& kernels, const MultiplyRun& parameters);

}  // namespace dmlcpu
