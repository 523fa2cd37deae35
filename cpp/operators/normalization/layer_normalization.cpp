// LAYER_NORMALIZATION: tensors input, weight, bias, output, FLOAT32; attributes axis, epsilon, the bits of a float32,
// and use_mean (0: elements are taken as they are, and over the root of the mean of their squares). Of graphs alone.
#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kWeight, kBias, kOutput };

class LayerNormalization final : public CompiledOperator {
 public:
  LayerNormalization(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target()),
        epsilon_(float_of_bits(desc(), "epsilon", desc().attribute("epsilon").front())),
        uses_mean_(index_attribute(desc(), "use_mean", 2) == 1) {
    for (const Tensor tensor : {kWeight, kBias}) rows_.check_parameter(desc(), tensor);
  }

  std::string describe() const override {
    return std::string("algorithm: by rows ") + (uses_mean_ ? "mean, variance" : "mean square") +
           ", affine\nkernel: layer_normalization\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto *weight = static_cast<const float*>(tensors[kWeight]), *bias = static_cast<const float*>(tensors[kBias]);
    rows_.run(tensors[kInput], tensors[kOutput],
              [=, this](const void* input, void* output, std::size_t count) noexcept {
                target().kernels().layer_normalization->floats({.input = static_cast<const float*>(input),
                                                                .output = static_cast<float*>(output),
                                                                .count = count,
                                                                .weight = weight,
                                                                .bias = bias,
                                                                .epsilon = epsilon_,
                                                                .uses_mean = uses_mean_});
              });
  }

 private:
  AxisRows rows_;
  float epsilon_;
  bool uses_mean_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_layer_normalization(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<LayerNormalization>(std::move(desc), target);
}

}  // namespace dmlcpu
