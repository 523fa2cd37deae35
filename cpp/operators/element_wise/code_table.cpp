// CODE_TABLE: tensors input, table, output. Every byte of the output is what the table has for the byte of the input: a
// chain of unary operators between 8-bit codes, or the step from one scale and zero point to others.
#include "operators/element_wise/code_runs.h"
#include "operators/element_wise/table_tensor.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/strided_copy.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kTable, kOutput };

// The copy of the input to the output, where that is a transposition: in blocks it is much faster than code by code.
std::optional<StridedCopy> transposition(const OperatorDesc& desc, const ExecutionTarget& target) {
  TensorLayout input = desc.tensor(kInput);
  input.type = desc.tensor(kOutput).type;
  StridedCopy copy(desc.tensor(kOutput), input, target);
  return copy.transposes() ? std::optional(std::move(copy)) : std::nullopt;
}

class CodeTable final : public CompiledOperator {
 public:
  CodeTable(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        transposition_(transposition(desc(), target())),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(transposition_ ? kOutput : kInput)}, target()),
        look_up_(target().kernels().table->look_up) {
    check_table(desc(), kTable);
  }

  std::string describe() const override {
    const std::string algorithm =
        transposition_ ? "transposition, then in place\n" + transposition_->describe() : "one pass";
    return "algorithm: " + algorithm + "\nkernel: " + kernel_words(target(), "table") + "\n" + runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* table = static_cast<const std::uint8_t*>(tensors[kTable]);
    if (transposition_) transposition_->run(tensors[kInput], tensors[kOutput]);
    runs_.run({static_cast<const std::uint8_t*>(tensors[transposition_ ? kOutput : kInput])},
              static_cast<std::uint8_t*>(tensors[kOutput]),
              [&](const CodeRuns::Inputs& inputs, std::uint8_t* output, std::size_t count) noexcept {
                look_up_({.table = table, .input = inputs[0], .count = count, .output = output});
              });
  }

  ElementStage make_stage(const TensorPointers& tensors) const override {
    return TableStage{
        look_up_,
        {.table = static_cast<const std::uint8_t*>(tensors[kTable]), .input = nullptr, .count = 0, .output = nullptr}};
  }

 private:
  std::optional<StridedCopy> transposition_;
  CodeRuns runs_;
  TableFunction look_up_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_code_table(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<CodeTable>(std::move(desc), target);
}

}  // namespace dmlcpu
