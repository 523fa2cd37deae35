// ELEMENT_WISE_QUANTIZE_LINEAR: tensors input, scale, zero point, output.
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/quantization/scaled_runs.h"
#include "operators/quantization_kernels.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kScale, kZeroPoint, kOutput };

class QuantizeLinear final : public CompiledOperator {
 public:
  QuantizeLinear(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        flip_(offset_flip(desc().tensor(kOutput).type)),
        runs_(desc().tensor(kInput), &desc().tensor(kScale), optional_tensor(desc(), kZeroPoint),
              desc().tensor(kOutput), target(), flip_),
        kernel_(quantize_kernel(*target().kernels().quantize, desc().tensor(kInput).type)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "quantize") + ", division\n" + runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run({.input = tensors[kInput],
               .scale = tensors[kScale],
               .zero_point = tensors[kZeroPoint],
               .output = tensors[kOutput],
               .constant_zero_point = static_cast<float>(flip_)},
              [this](const ScaledBlock& block) noexcept { kernel_(quantize_run(block, flip_)); });
  }

 private:
  std::uint8_t flip_;  // also what moves a zero point to the offset domain: 0, or 128 for INT8
  ScaledRuns runs_;
  QuantizeFunction kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantize_linear(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizeLinear>(std::move(desc), target);
}

}  // namespace dmlcpu
