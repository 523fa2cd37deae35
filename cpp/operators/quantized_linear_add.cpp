// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: tensors a, a scale, a zero point, b, b scale, b zero point, output scale, output
// zero point, output.
#include "operators/code_runs.h"
#include "operators/operator.h"
#include "operators/staging.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t {
  kA,
  kAScale,
  kAZeroPoint,
  kB,
  kBScale,
  kBZeroPoint,
  kOutputScale,
  kOutputZeroPoint,
  kOutput
};

class QuantizedLinearAdd final : public CompiledOperator {
 public:
  QuantizedLinearAdd(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}, target()) {
    for (const std::size_t scale : {kAScale, kBScale, kOutputScale}) desc().tensor(scale);
  }

  std::string describe() const override { return "algorithm: one pass\nkernel: add\n" + runs_.describe(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const AddOperand a = operand(tensors, kA, kAScale, kAZeroPoint);
    const AddOperand b = operand(tensors, kB, kBScale, kBZeroPoint);
    const AddOperand sum = operand(tensors, kOutput, kOutputScale, kOutputZeroPoint);
    const AddKernels& kernels = *target().kernels().add;
    runs_.run({static_cast<const std::uint8_t*>(tensors[kA]), static_cast<const std::uint8_t*>(tensors[kB])},
              static_cast<std::uint8_t*>(tensors[kOutput]),
              [&](const CodeRuns::Inputs& inputs, std::uint8_t* output, std::size_t count) noexcept {
                kernels.run({.a = inputs[0],
                             .b = inputs[1],
                             .output = output,
                             .count = count,
                             .a_parameters = a,
                             .b_parameters = b,
                             .output_parameters = sum});
              });
  }

 private:
  AddOperand operand(const TensorPointers& tensors, Tensor codes, Tensor scale, Tensor zero_point) const {
    const DataType type = desc().tensor(codes).type;
    const std::uint8_t flip = offset_flip(type);
    return {.scale = value_as_float(tensors[scale], DataType::float32),
            .zero_point = value_as_float(tensors[zero_point], type) + flip,
            .flip = flip};
  }

  CodeRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_add(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedLinearAdd>(std::move(desc), target);
}

}  // namespace dmlcpu
