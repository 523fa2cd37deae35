// COPY: tensors input, output, of one data type: changes of layout, slices, pieces of a concatenation.
#include "operators/operator.h"
#include "operators/strided_copy.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class Copy final : public CompiledOperator {
 public:
  Copy(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        copy_(desc().tensor(kOutput), desc().tensor(kInput), target()) {}

  std::string describe() const override { return copy_.describe(); }

 protected:
  void run(const TensorPointers& tensors) const override { copy_.run(tensors[kInput], tensors[kOutput]); }

 private:
  StridedCopy copy_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_copy(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Copy>(std::move(desc), target);
}

}  // namespace dmlcpu
