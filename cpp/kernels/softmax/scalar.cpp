// The normative arithmetic of softmax.h in plain C++.
#include <cstring>

#include "kernels/softmax/softmax.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/scalar.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"
// after the functions
#include "kernels/softmax/float_row.inl.h"

CodeSoftmaxSum code_sum(const CodeSoftmaxRow& row) noexcept {
  const std::uint8_t flip = row.input_flip;
  std::uint8_t maximum = 0;
  for (std::size_t i = 0; i < row.count; ++i) {
    const auto code = static_cast<std::uint8_t>(row.input[i] ^ flip);
    maximum = code > maximum ? code : maximum;
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < row.count; ++i) {
    const auto below = static_cast<std::uint8_t>(maximum - (row.input[i] ^ flip));  // in range whatever is read now
    const float power = row.exponentials[below];
    sum += static_cast<std::uint64_t>(power / kExponentialUnit);
    if (row.powers != nullptr) row.powers[i] = power;
  }
  return {maximum, static_cast<float>(sum) * kExponentialUnit};
}

void write_shares(const CodeShares& run) noexcept {
  for (std::size_t i = 0; i < run.count; ++i) {
    run.output[i] = to_code(run.powers[i] / run.sum / run.output_scale, run.output_zero_point, run.output_flip);
  }
}

void write_columns(const CodeSoftmaxColumns& operands) noexcept {
  const CodeSoftmaxColumns columns = operands;  // a copy: the output could alias the original
  const auto steps = static_cast<std::int64_t>(columns.count);
  for (std::size_t j = 0; j < columns.rows; ++j) {
    std::uint8_t codes[kMostSoftmaxColumnElements];
    float powers[kMostSoftmaxColumnElements];
    const std::uint8_t* input = columns.input + j;
    for (std::int64_t i = 0; i < steps; ++i) codes[i] = input[i * columns.input_step];
    const CodeSoftmaxSum of = code_sum({.input = codes,
                                        .count = columns.count,
                                        .exponentials = columns.exponentials,
                                        .input_flip = columns.input_flip,
                                        .powers = powers});
    write_shares({.powers = powers,
                  .count = columns.count,
                  .sum = of.sum,
                  .output_scale = columns.output_scale,
                  .output_zero_point = columns.output_zero_point,
                  .output_flip = columns.output_flip,
                  .output = codes});
    std::uint8_t* output = columns.output + j;
    for (std::int64_t i = 0; i < steps; ++i) output[i * columns.output_step] = codes[i];
  }
}

}  // namespace

constinit const SoftmaxKernels scalar::softmax = {.floats = softmax_floats,
                                                  .logarithms = softmax_logarithms,
                                                  .columns = softmax_columns,
                                                  .logarithm_columns = softmax_logarithm_columns,
                                                  .code_sum = code_sum,
                                                  .shares = write_shares,
                                                  .code_columns = write_columns};

}  // namespace dmlcpu
