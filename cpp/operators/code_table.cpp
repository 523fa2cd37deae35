// CODE_TABLE: tensors input, table, output. Every byte of the output is what the table has for the byte of the input: a
// chain of unary operators between 8-bit codes, or the step from one scale and zero point to others.
#include <stdexcept>

#include "operators/code_runs.h"
#include "operators/operator.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kTable, kOutput };

// The table is read as 256 bytes from its first.
void check_table(const OperatorDesc& desc) {
  const TensorLayout& table = desc.tensor(kTable);
  std::int64_t packed_stride = 1;
  for (std::size_t axis = table.rank; axis-- > 0;) {
    if (table.sizes[axis] != 1 && table.strides[axis] != packed_stride) packed_stride = 0;
    packed_stride *= table.sizes[axis];
  }
  if (packed_stride != 256) throw std::invalid_argument(desc.type + ": the table is 256 contiguous elements");
}

class CodeTable final : public CompiledOperator {
 public:
  CodeTable(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kInput)}),
        look_up_(target().kernels().best_table().look_up) {
    check_table(desc());
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: table\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* table = static_cast<const std::uint8_t*>(tensors[kTable]);
    runs_.run({static_cast<const std::uint8_t*>(tensors[kInput])}, static_cast<std::uint8_t*>(tensors[kOutput]),
              target().num_threads,
              [&](const CodeRuns::Inputs& inputs, std::uint8_t* output, std::size_t count) noexcept {
                look_up_({.table = table, .input = inputs[0], .count = count, .output = output});
              });
  }

 private:
  CodeRuns runs_;
  TableFunction look_up_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_code_table(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CodeTable>(std::move(desc), target);
}

}  // namespace dmlcpu
