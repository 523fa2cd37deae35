// ELEMENT_WISE_DEQUANTIZE_LINEAR: tensors input, scale, zero point, output.
#include <stdexcept>

#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/quantization/scaled_runs.h"

namespace dmlcpu {
namespace {

DequantizeFunction select_kernel(const DequantizeKernels& kernels, DataType input, DataType output) {
  const DequantizeToFloat& row = output == DataType::float16 ? kernels.to_float16 : kernels.to_float32;
  switch (input) {
    case DataType::uint8:
      return row.uint8;
    case DataType::int8:
      return row.int8;
    case DataType::uint16:
      return row.uint16;
    case DataType::int16:
      return row.int16;
    case DataType::uint32:
      return row.uint32;
    case DataType::int32:
      return row.int32;
    default:
      throw std::logic_error("ELEMENT_WISE_DEQUANTIZE_LINEAR: no kernel for this input type");
  }
}

class DequantizeLinear final : public CompiledOperator {
 public:
  DequantizeLinear(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc().tensor(0), &desc().tensor(1), optional_tensor(desc(), 2), desc().tensor(3), target(), 0.0F),
        kernel_(select_kernel(*target().kernels().dequantize, desc().tensor(0).type, desc().tensor(3).type)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "dequantize") + "\n" + runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run({.input = tensors[0], .scale = tensors[1], .zero_point = tensors[2], .output = tensors[3]},
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
