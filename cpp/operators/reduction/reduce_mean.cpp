// REDUCE_MEAN and REDUCE_SUM: tensors input, output, FLOAT32, the output of length 1 along the attribute axis. Of
// graphs alone.
#include "operators/operator.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class RowReduction final : public CompiledOperator {
 public:
  RowReduction(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target(), AxisRows::Results::one),
        divisor_(desc().type == "REDUCE_MEAN" ? static_cast<float>(rows_.length()) : 1.0F) {}

  std::string describe() const override {
    return "algorithm: " + std::string(desc().type == "REDUCE_MEAN" ? "mean" : "sum") +
           (rows_.are_columns() ? " of columns" : " of rows") + "\nkernel: layer_normalization\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const LayerNormalizationKernels& kernels = *target().kernels().layer_normalization;
    if (rows_.are_columns()) {
      const auto columns = [&](const void* input, void* output, std::size_t count, std::int64_t step,
                               std::int64_t) noexcept {
        kernels.column_quotients({.input = static_cast<const float*>(input),
                                  .step = static_cast<std::size_t>(step) / sizeof(float),
                                  .count = rows_.length(),
                                  .columns = count,
                                  .divisor = divisor_,
                                  .quotients = static_cast<float*>(output)});
      };
      return rows_.run_columns(tensors[kInput], tensors[kOutput], columns);
    }
    rows_.run(tensors[kInput], tensors[kOutput], [&](const void* input, void* output, std::size_t count) noexcept {
      *static_cast<float*>(output) = kernels.sum(static_cast<const float*>(input), count) / divisor_;
    });
  }

 private:
  AxisRows rows_;
  float divisor_;  // 1 of sums
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_reduce_mean(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<RowReduction>(std::move(desc), target);
}

}  // namespace dmlcpu
