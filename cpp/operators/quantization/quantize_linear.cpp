// ELEMENT_WISE_QUANTIZE_LINEAR: tensors input, scale, zero point, output.
#include <stdexcept>

#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/quantization/scaled_runs.h"

namespace dmlcpu {
namespace {

QuantizeFunction select_kernel(const QuantizeKernels& kernels, DataType input) {
  switch (input) {
    case DataType::float32:
      return kernels.divide_float32;
    case DataType::float16:
      return kernels.divide_float16;
    case DataType::int32:
      return kernels.divide_int32;
    default:
      throw std::logic_error("ELEMENT_WISE_QUANTIZE_LINEAR: no kernel for this input type");
  }
}

class QuantizeLinear final : public CompiledOperator {
 public:
  QuantizeLinear(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        flip_(offset_flip(desc().tensor(3).type)),
        runs_(desc().tensor(0), &desc().tensor(1), optional_tensor(desc(), 2), desc().tensor(3), target(), flip_),
        kernel_(select_kernel(*target().kernels().quantize, desc().tensor(0).type)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "quantize") + ", division\n" + runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run({.input = tensors[0],
               .scale = tensors[1],
               .zero_point = tensors[2],
               .output = tensors[3],
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
