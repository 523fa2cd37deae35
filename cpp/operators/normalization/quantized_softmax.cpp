// QUANTIZED_SOFTMAX: tensors input, input scale, input zero point, output scale, output zero point, output; attribute
// axis. Of graphs alone.
//
// exp(x - m) of codes depends on their difference to the largest alone: 256 values at most, computed once a dispatch,
// or once at all where the input's scale is owned. Of a row the codes of the output are a function of those of the
// input; long rows look them up in a table of it.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include "operators/code_parameters.h"
#include "operators/normalization/softmax_rows.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kInputScale, kInputZeroPoint, kOutputScale, kOutputZeroPoint, kOutput };

constexpr CodeTensors kInputCodes = {kInput, kInputScale, kInputZeroPoint};
constexpr CodeTensors kOutputCodes = {kOutput, kOutputScale, kOutputZeroPoint};

// 1/13!, ..., 1/1!, 1/0!
constexpr std::array<double, 14> kSeries = [] {
  std::array<double, 14> series{};
  double factorial = 1.0;
  for (std::size_t term = 0; term < series.size(); ++term) {
    if (term > 0) factorial *= static_cast<double>(term);
    series[series.size() - 1 - term] = 1.0 / factorial;
  }
  return series;
}();

// e^x rounded to float32 for |x| <= 104, by a sequence of float64 operations that is the same on every CPU, as that of
// a C library need not be: e^x = 2^n * e^r, |r| <= log(2) / 2, e^r by its series to some 2^-51. So the result is the
// float32 nearest to e^x, unless e^x lies as close to the middle of two. n stands in the lowest bits of its sum with
// 1.5 * 2^52. NaN passes.
inline float exponential(double x) {
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double r = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b3ap-40;
  double sum = kSeries[0];
  for (std::size_t i = 1; i < kSeries.size(); ++i) sum = sum * r + kSeries[i];
  return static_cast<float>(sum * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52));
}

// From here on a table of 256 results, and looking them up, takes less time than the results one by one.
constexpr std::size_t kLongRow = 768;
// Rows of 9 take 46 ns each by themselves and 7 as columns, to which they are transposed (AVX-512); rows of 80 89 and
// 108 (AVX2).
constexpr std::size_t kMostNeighbours = 64;

using Exponentials = std::array<float, 256>;

// e^(-i * scale) for every difference i of two codes; 0 where it is below some 2^-80, as what masks hide is: of smaller
// ones kernels would make subnormal numbers, which take processors ten times as long, and no output scale from 2^-64 on
// has a code for them. Where the scale is negative it is more than the largest float beyond 104. Without these entries
// the loop has no branches, and becomes vectors.
Exponentials exponentials_of(float scale) {
  const double step = scale, bounded = std::fabs(step) * 255.0, bound = step > 0.0 ? 55.5 : 104.0;
  const int within = bounded > bound ? static_cast<int>(bound / std::fabs(step)) + 1 : 256;
  Exponentials table;
  table.fill(step > 0.0 ? 0.0F : std::numeric_limits<float>::infinity());
  for (int i = 0; i < within; ++i) table[static_cast<std::size_t>(i)] = exponential(-i * step);
  return table;
}

class QuantizedSoftmax final : public CompiledOperator {
 public:
  QuantizedSoftmax(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target(),
              softmax_rows(desc(), desc().tensor(kInput), desc().tensor(kOutput), kMostNeighbours)),
        look_up_(target().kernels().table->look_up) {
    check_code_parameters(desc(), kInputCodes);
    check_code_parameters(desc(), kOutputCodes);
  }

  std::string describe() const override {
    return "algorithm: 256 exponentials, then by rows maximum, sum, quotients" +
           std::string(rows_.length() < kLongRow ? "" : " of 256 codes") +
           "\nkernel: " + kernel_words(target(), "softmax") +
           (rows_.length() < kLongRow ? "" : ", " + kernel_words(target(), "table")) + "\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  std::size_t prepared_size() const override { return all_owned(present({kInputScale})) ? sizeof(Exponentials) : 0; }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (prepared != nullptr)
      new (prepared) Exponentials(exponentials_of(*static_cast<const float*>(owned[kInputScale])));
  }

  void run(const TensorPointers& tensors) const override {
    const CodeParameters input = code_parameters(desc(), tensors, kInputCodes);
    const CodeParameters output = code_parameters(desc(), tensors, kOutputCodes);
    Exponentials computed;
    if (prepared() == nullptr) computed = exponentials_of(input.scale);
    const Exponentials& exponentials =
        prepared() == nullptr ? computed : *reinterpret_cast<const Exponentials*>(prepared());
    const RowParameters parameters = {exponentials.data(), input.flip, output};
    if (rows_.are_columns()) {
      const auto columns = [&](const void* codes, void* results, std::size_t count, std::int64_t input_step,
                               std::int64_t output_step) noexcept {
        target().kernels().softmax->code_columns({.input = static_cast<const std::uint8_t*>(codes),
                                                  .output = static_cast<std::uint8_t*>(results),
                                                  .count = rows_.length(),
                                                  .rows = count,
                                                  .input_step = input_step,
                                                  .output_step = output_step,
                                                  .exponentials = exponentials.data(),
                                                  .input_flip = input.flip,
                                                  .output_scale = output.scale,
                                                  .output_zero_point = output.zero_point,
                                                  .output_flip = output.flip});
      };
      return rows_.run_columns(tensors[kInput], tensors[kOutput], columns);
    }
    rows_.run(tensors[kInput], tensors[kOutput], [&](const void* codes, void* result, std::size_t count) noexcept {
      write_row(parameters, static_cast<const std::uint8_t*>(codes), static_cast<std::uint8_t*>(result), count);
    });
  }

 private:
  struct RowParameters {
    const float* exponentials;
    std::uint8_t input_flip;
    CodeParameters output;
  };

  void write_row(const RowParameters& parameters, const std::uint8_t* input, std::uint8_t* output,
                 std::size_t count) const noexcept {
    const SoftmaxKernels& kernels = *target().kernels().softmax;
    const bool is_long = count >= kLongRow;
    alignas(64) float powers[kLongRow];
    const CodeSoftmaxSum of = kernels.code_sum({.input = input,
                                                .count = count,
                                                .exponentials = parameters.exponentials,
                                                .input_flip = parameters.input_flip,
                                                .powers = is_long ? nullptr : powers});
    std::uint8_t table[256];
    for (std::size_t i = 0; is_long && i < 256; ++i) {  // codes above the largest do not occur
      const auto code = static_cast<std::uint8_t>(i ^ parameters.input_flip);
      powers[i] = parameters.exponentials[of.maximum - std::min(code, of.maximum)];
    }
    kernels.shares({.powers = powers,
                    .count = is_long ? 256 : count,
                    .sum = of.sum,
                    .output_scale = parameters.output.scale,
                    .output_zero_point = parameters.output.zero_point,
                    .output_flip = parameters.output.flip,
                    .output = is_long ? table : output});
    if (is_long) look_up_({.table = table, .input = input, .count = count, .output = output});
  }

  AxisRows rows_;
  TableFunction look_up_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_softmax(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedSoftmax>(std::move(desc), target);
}

}  // namespace dmlcpu
