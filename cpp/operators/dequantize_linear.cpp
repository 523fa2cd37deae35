// ELEMENT_WISE_DEQUANTIZE_LINEAR: tensors input, scale, zero point, output.
#include <stdexcept>

#include "operators/operator.h"
#include "operators/scaled_runs.h"

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
        runs_(desc(), 0.0F, 0.0F),
        kernel_(select_kernel(*target().kernels().dequantize, desc().tensor(0).type, desc().tensor(3).type)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: dequantize\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run(tensors, target().num_threads,
              [this](const void* input, void* output, std::size_t count, const float* scale, const float* zero_point,
                     bool per_element) noexcept {
                kernel_({.input = input,
                         .output = output,
                         .count = count,
                         .scale = scale,
                         .zero_point = zero_point,
                         .per_element = per_element});
              });
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
