// QUANTIZED_SOFTMAX: tensors input, input scale, input zero point, output scale, output zero point, output; attribute
// axis. Of graphs alone.
//
// exp(x - m) of codes depends on their difference to the largest alone: 256 values at most, computed once a dispatch,
// or once at all where the input's scale is owned. Where the scale is negative the smallest code is the largest x:
// codes are inverted, and the scale is. Of a row the codes of the output are a function of those of the input; long
// rows look them up in a table of it.
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

// e^x rounded to float32 for x from -23 to 0, by a sequence of float64 operations that is the same on every CPU, as
// that of a C library need not be: e^x = 2^n * e^r, |r| <= log(2) / 2, e^r by its series to some 2^-51. So the result
// is the float32 nearest to e^x, unless e^x lies as close to the middle of two. n stands in the lowest bits of its sum
// with 1.5 * 2^52. A double, as more is computed of it.
inline double exponential(double x) {
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double r = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b3ap-40;
  double sum = kSeries[0];
  for (std::size_t i = 1; i < kSeries.size(); ++i) sum = sum * r + kSeries[i];
  const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
  return static_cast<float>(sum * power);
}

// From here on a table of 256 results, and looking them up, takes less time than the results one by one.
constexpr std::size_t kLongRow = 768;
// Rows of 9 take 46 ns each by themselves and 7 as columns, to which they are transposed (AVX-512); rows of 80 89 and
// 108 (AVX2).
constexpr std::size_t kMostNeighbours = 64;
// Rows of fewer have less codes than there are exponentials: 16 take 39 ns by themselves, and 57 together.
constexpr std::size_t kLeastTogether = 33;

// e^(-i * |scale|) for every difference i of two codes, as a float32 and then as a multiple of 2^-31, half to even: 0
// where it is below some 2^-32, as what masks hide is. A scale that is no number counts as 0. Beyond 23 the exponential
// is 0 anyway: without these entries the loop has no branches, and becomes vectors.
CodeExponentials exponentials_of(float scale) {
  const double step = std::isfinite(scale) ? std::fabs(static_cast<double>(scale)) : 0.0;
  const int within = step * 255.0 > 23.0 ? static_cast<int>(23.0 / step) + 1 : 256;
  CodeExponentials table{};
  std::array<std::uint32_t, 256> units{};
  for (int i = 0; i < within; ++i) {
    const double rounded = exponential(-i * step) * 0x1p31 + 0x1p52;
    units[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(rounded));
    table.values[i] = static_cast<float>((rounded - 0x1p52) * 0x1p-31);
  }
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::size_t i = 0; i < 256; ++i) table.bytes[byte][i] = static_cast<std::uint8_t>(units[i] >> 8 * byte);
  }
  return table;
}

class QuantizedSoftmax final : public CompiledOperator {
 public:
  QuantizedSoftmax(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target(),
              results_of_softmax(desc(), desc().tensor(kInput), desc().tensor(kOutput), kMostNeighbours)),
        look_up_(target().kernels().table->look_up) {
    check_code_parameters(desc(), kInputCodes);
    check_code_parameters(desc(), kOutputCodes);
  }

  std::string describe() const override {
    const bool are_together = !rows_.are_columns() && takes_rows_together(1.0F);
    const bool are_long = !are_together && rows_.length() >= kLongRow;
    return std::string("algorithm: 256 exponentials, then by rows maximum, sum, quotients") +
           (are_together || are_long ? " of 256 codes" : "") +
           "\nkernel: " + kernel_words(target(), are_together ? "softmax_rows" : "softmax") +
           (are_long ? ", " + kernel_words(target(), "table") : "") + "\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  std::size_t prepared_size() const override {
    return all_owned(present({kInputScale})) ? sizeof(CodeExponentials) : 0;
  }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (prepared != nullptr)
      new (prepared) CodeExponentials(exponentials_of(*static_cast<const float*>(owned[kInputScale])));
  }

  void run(const TensorPointers& tensors) const override {
    const CodeParameters input = code_parameters(desc(), tensors, kInputCodes);
    CodeExponentials computed;
    if (prepared() == nullptr) computed = exponentials_of(input.scale);
    const RowParameters parameters = {
        prepared() == nullptr ? computed : *reinterpret_cast<const CodeExponentials*>(prepared()),
        static_cast<std::uint8_t>(input.scale < 0.0F ? ~input.flip : input.flip), output_of(tensors, input.scale)};
    if (rows_.are_columns()) return run_columns(parameters, tensors);
    if (takes_rows_together(parameters.output.scale)) return run_rows_together(parameters, tensors);
    rows_.run(tensors[kInput], tensors[kOutput], [&](const void* codes, void* result, std::size_t count) noexcept {
      write_row(parameters, static_cast<const std::uint8_t*>(codes), static_cast<std::uint8_t*>(result), count);
    });
  }

 private:
  struct RowParameters {
    const CodeExponentials& exponentials;
    std::uint8_t input_flip;
    CodeParameters output;
  };

  // Where the input's scale is no number all shares are none, as by an output scale that is none.
  CodeParameters output_of(const TensorPointers& tensors, float input_scale) const {
    CodeParameters output = code_parameters(desc(), tensors, kOutputCodes);
    if (!std::isfinite(input_scale)) output.scale = std::numeric_limits<float>::quiet_NaN();
    return output;
  }

  bool takes_rows_together(float output_scale) const {
    return target().kernels().softmax_rows != nullptr && rows_.length() >= kLeastTogether && output_scale >= 0x1p-64F &&
           output_scale <= 0x1p64F;
  }

  void run_columns(const RowParameters& parameters, const TensorPointers& tensors) const {
    const auto columns = [&](const void* codes, void* results, std::size_t count, std::int64_t input_step,
                             std::int64_t output_step) noexcept {
      target().kernels().softmax->code_columns({.input = static_cast<const std::uint8_t*>(codes),
                                                .output = static_cast<std::uint8_t*>(results),
                                                .count = rows_.length(),
                                                .rows = count,
                                                .input_step = input_step,
                                                .output_step = output_step,
                                                .exponentials = parameters.exponentials.values,
                                                .input_flip = parameters.input_flip,
                                                .output_scale = parameters.output.scale,
                                                .output_zero_point = parameters.output.zero_point,
                                                .output_flip = parameters.output.flip});
    };
    rows_.run_columns(tensors[kInput], tensors[kOutput], columns);
  }

  void run_rows_together(const RowParameters& parameters, const TensorPointers& tensors) const {
    const auto rows = [&](const void* codes, void* results, std::size_t count, std::int64_t input_step,
                          std::int64_t output_step) noexcept {
      target().kernels().softmax_rows->codes({.input = static_cast<const std::uint8_t*>(codes),
                                              .output = static_cast<std::uint8_t*>(results),
                                              .count = rows_.length(),
                                              .rows = count,
                                              .input_step = input_step,
                                              .output_step = output_step,
                                              .exponentials = &parameters.exponentials,
                                              .input_flip = parameters.input_flip,
                                              .output_scale = parameters.output.scale,
                                              .output_zero_point = parameters.output.zero_point,
                                              .output_flip = parameters.output.flip});
    };
    rows_.run_together(tensors[kInput], tensors[kOutput], rows);
  }

  void write_row(const RowParameters& parameters, const std::uint8_t* input, std::uint8_t* output,
                 std::size_t count) const noexcept {
    const SoftmaxKernels& kernels = *target().kernels().softmax;
    const bool is_long = count >= kLongRow;
    alignas(64) float powers[kLongRow];
    const CodeSoftmaxSum of = kernels.code_sum({.input = input,
                                                .count = count,
                                                .exponentials = parameters.exponentials.values,
                                                .input_flip = parameters.input_flip,
                                                .powers = is_long ? nullptr : powers});
    std::uint8_t table[256];
    for (std::size_t i = 0; is_long && i < 256; ++i) {  // codes above the largest do not occur
      const auto code = static_cast<std::uint8_t>(i ^ parameters.input_flip);
      powers[i] = parameters.exponentials.values[of.maximum - std::min(code, of.maximum)];
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
