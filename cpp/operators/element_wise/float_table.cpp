// FLOAT_TABLE: tensors input, table, output. Every element of the output is the FLOAT32 that the table has for the byte
// of the input: a chain of unary operators on 8-bit codes whose result is wanted in floating point. Of graphs alone.
#include "operators/element_wise/mapped_runs.h"
#include "operators/element_wise/table_tensor.h"
#include "operators/operator.h"
#include "operators/plan_words.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kTable, kOutput };

class FloatTable final : public CompiledOperator {
 public:
  FloatTable(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc().tensor(kInput), desc().tensor(kOutput)) {
    check_table(desc(), kTable);
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "table") + "\n" +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* table = static_cast<const float*>(tensors[kTable]);
    const auto look_up = target().kernels().table->look_up_floats;
    runs_.run(tensors[kInput], tensors[kOutput], target(),
              [table, look_up](const void* input, void* output, std::size_t count) noexcept {
                look_up({.table = table,
                         .input = static_cast<const std::uint8_t*>(input),
                         .count = count,
                         .output = static_cast<float*>(output)});
              });
  }

 private:
  MappedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_table(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatTable>(std::move(desc), target);
}

}  // namespace dmlcpu
