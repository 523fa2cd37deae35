// The normative arithmetic of softmax.h in plain C++.
#include <cstring>

#include "kernels/softmax/softmax.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/scalar.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
#include "kernels/lanes/steps.inl.h"
// after the functions
#include "kernels/softmax/float_row.inl.h"

void softmax_codes(const CodeSoftmaxRow& row) noexcept {
  const std::uint8_t flip = row.input_flip;
  std::uint8_t maximum = 0;
  for (std::size_t i = 0; i < row.count; ++i) {
    const auto code = static_cast<std::uint8_t>(row.input[i] ^ flip);
    maximum = code > maximum ? code : maximum;
  }
  const auto power = [&](std::size_t i) { return row.exponentials[maximum - (row.input[i] ^ flip)]; };
  float sums[16] = {};
  for (std::size_t i = 0; i < row.count; ++i) sums[i % 16] += power(i);
  const float sum = folded(sums);
  for (std::size_t i = 0; i < row.count; ++i) {
    row.output[i] = to_code(power(i) / sum / row.output_scale, row.output_zero_point, row.output_flip);
  }
}

}  // namespace

constinit const SoftmaxKernels scalar::softmax = {.floats = softmax_floats, .codes = softmax_codes};

}  // namespace dmlcpu
