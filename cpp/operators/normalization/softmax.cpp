// SOFTMAX and LOG_SOFTMAX: tensors input, output, FLOAT32; attribute axis. Of graphs alone.
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class Softmax final : public CompiledOperator {
 public:
  Softmax(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target()),
        kernel_(desc().type == "LOG_SOFTMAX" ? target().kernels().softmax->logarithms
                                             : target().kernels().softmax->floats) {}

  std::string describe() const override {
    return std::string("algorithm: maximum, exponentials and sum, ") +
           (desc().type == "LOG_SOFTMAX" ? "differences" : "quotients") +
           "\nkernel: " + kernel_words(target(), "softmax") + "\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    rows_.run(tensors[kInput], tensors[kOutput], [this](const void* input, void* output, std::size_t count) noexcept {
      kernel_({.input = static_cast<const float*>(input), .output = static_cast<float*>(output), .count = count});
    });
  }

 private:
  AxisRows rows_;
  void (*kernel_)(const FloatSoftmaxRow& row) noexcept;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_softmax(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Softmax>(std::move(desc), target);
}

}  // namespace dmlcpu
