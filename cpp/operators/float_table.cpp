// FLOAT_TABLE: tensors input, table, output. Every element of the output is the FLOAT32 that the table has for the byte
// of the input: a chain of unary operators on 8-bit codes whose result is wanted in floating point. Of graphs alone.
#include <stdexcept>

#include "operators/mapped_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kTable, kOutput };

// The table is read as 256 floats from its first.
void check_table(const OperatorDesc& desc) {
  const TensorLayout& table = desc.tensor(kTable);
  std::int64_t packed_stride = 1;
  for (std::size_t axis = table.rank; axis-- > 0;) {
    if (table.sizes[axis] != 1 && table.strides[axis] != packed_stride) packed_stride = 0;
    packed_stride *= table.sizes[axis];
  }
  if (packed_stride != 256) throw std::invalid_argument(desc.type + ": the table is 256 contiguous elements");
}

class FloatTable final : public CompiledOperator {
 public:
  FloatTable(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc().tensor(kInput), desc().tensor(kOutput)) {
    check_table(desc());
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
