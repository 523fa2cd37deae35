// ELEMENT_WISE_DEQUANTIZE_LINEAR: tensors input, scale, zero point, output.
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/quantization/scaled_runs.h"
#include "operators/quantization_kernels.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kScale, kZeroPoint, kOutput };

class DequantizeLinear final : public CompiledOperator {
 public:
  DequantizeLinear(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc().tensor(kInput), &desc().tensor(kScale), optional_tensor(desc(), kZeroPoint),
              desc().tensor(kOutput), target(), 0.0F),
        kernel_(dequantize_kernel(*target().kernels().dequantize, desc().tensor(kInput).type,
                                  desc().tensor(kOutput).type)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "dequantize") + "\n" + runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run({.input = tensors[kInput],
               .scale = tensors[kScale],
               .zero_point = tensors[kZeroPoint],
               .output = tensors[kOutput]},
              [this](const ScaledBlock& block) noexcept { kernel_(dequantize_run(block)); });
  }

 private:
  ScaledRuns runs_;
  DequantizeFunction kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_dequantize_linear(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<DequantizeLinear>(std::move(desc), target);
}

}  // namespace dmlcpu
