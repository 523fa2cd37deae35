// SOFTMAX and LOG_SOFTMAX: tensors input, output, FLOAT32; attribute axis. Of graphs alone.
#include "operators/normalization/softmax_rows.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// Rows of 33 take 36 ns each by themselves and 26 as columns, to which they are transposed; rows of 48 as long as by
// themselves (AVX-512).
constexpr std::size_t kMostNeighbours = 40;

class Softmax final : public CompiledOperator {
 public:
  Softmax(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target(),
              results_of_softmax(desc(), desc().tensor(kInput), desc().tensor(kOutput), kMostNeighbours)) {}

  std::string describe() const override {
    return std::string("algorithm: maximum, exponentials and sum, ") + (is_logarithm() ? "differences" : "quotients") +
           "\nkernel: " + kernel_words(target(), "softmax") + "\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const SoftmaxKernels& kernels = *target().kernels().softmax;
    if (rows_.are_columns()) {
      constexpr std::int64_t kBytes = sizeof(float);
      const auto kernel = is_logarithm() ? kernels.logarithm_columns : kernels.columns;
      const auto columns = [&](const void* input, void* output, std::size_t count, std::int64_t input_step,
                               std::int64_t output_step) noexcept {
        kernel({.input = static_cast<const float*>(input),
                .output = static_cast<float*>(output),
                .count = rows_.length(),
                .rows = count,
                .input_step = input_step / kBytes,
                .output_step = output_step / kBytes});
      };
      return rows_.run_columns(tensors[kInput], tensors[kOutput], columns);
    }
    const auto kernel = is_logarithm() ? kernels.logarithms : kernels.floats;
    rows_.run(tensors[kInput], tensors[kOutput], [=](const void* input, void* output, std::size_t count) noexcept {
      kernel({.input = static_cast<const float*>(input), .output = static_cast<float*>(output), .count = count});
    });
  }

 private:
  bool is_logarithm() const { return desc().type == "LOG_SOFTMAX"; }

  AxisRows rows_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_softmax(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Softmax>(std::move(desc), target);
}

}  // namespace dmlcpu
