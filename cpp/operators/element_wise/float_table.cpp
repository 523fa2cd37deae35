// FLOAT_TABLE: tensors input, table, output. Every element of the output is the FLOAT32 that the table has for the byte
// of the input: a chain of unary operators on 8-bit codes whose result is wanted in floating point. Of graphs alone.
#include "operators/element_wise/mapped_runs.h"
#include "operators/element_wise/table_tensor.h"
#include "operators/operator_table.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kTable, kOutput };

class FloatTable final : public CompiledOperator {
 public:
  FloatTable(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc().tensor(kInput), desc().tensor(kOutput)) {
    check_table(desc(), kTable);
  }

  std::string describe() const override {
    return "algorithm: one pass, element by element\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* table = static_cast<const float*>(tensors[kTable]);
    runs_.run(tensors[kInput], tensors[kOutput], target(),
              [table](const void* input, void* output, std::size_t count) noexcept {
                const auto* codes = static_cast<const std::uint8_t*>(input);
                auto* floats = static_cast<float*>(output);
                for (std::size_t i = 0; i < count; ++i) floats[i] = table[codes[i]];
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
