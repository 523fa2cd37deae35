// GROUP_NORMALIZATION: tensors input, {images, groups, elements}, weight, bias, output, FLOAT32; attributes axis, which
// is 2, and epsilon, the bits of a float32. A group's elements are those of equally many channels, one behind the
// other, of each of which weight and bias have an element, those of the first group first. Of graphs alone.
#include <stdexcept>
#include <utility>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kWeight, kBias, kOutput };

// Each group's channels behind those of the one before, in every image.
TensorLayout layout_of_channels(const OperatorDesc& desc) {
  TensorLayout layout = desc.tensor(kInput);
  if (layout.rank != 3 || index_attribute(desc, "axis", 3) != 2) {
    throw std::invalid_argument(desc.type + ": groups are rows of images");
  }
  const std::int64_t channels = desc.tensor(kWeight).element_count(), groups = layout.sizes[1];
  if (channels % groups != 0 || layout.sizes[2] % (channels / groups) != 0) {
    throw std::invalid_argument(desc.type + ": channels and elements do not fit together");
  }
  layout.sizes[2] = 1;
  layout.strides = {0, channels / groups, 0};
  return layout;
}

class GroupNormalization final : public CompiledOperator {
 public:
  GroupNormalization(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        parameters_(layout_of_channels(desc())),
        rows_(desc(), kInput, kOutput, target(), parameters_),
        channels_(static_cast<std::size_t>(parameters_.strides[1])),
        epsilon_(float_of_bits(desc(), "epsilon", desc().attribute("epsilon").front())) {
    const std::int64_t count = desc().tensor(kWeight).element_count();
    for (const Tensor tensor : {kWeight, kBias}) {
      const TensorLayout& layout = desc().tensor(tensor);
      if (layout.rank != 1 || layout.element_count() != count || layout.span() != count) {
        throw std::invalid_argument(desc().type + ": weight and bias are not one element for each channel");
      }
    }
  }

  std::string describe() const override {
    return "algorithm: by groups mean, variance, affine for each of " + counted(parameters_.strides[1], "channel") +
           "\nkernel: layer_normalization\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto *weight = static_cast<const float*>(tensors[kWeight]), *bias = static_cast<const float*>(tensors[kBias]);
    rows_.run_with_parameters(
        tensors[kInput], tensors[kOutput],
        [=, this](const void* input, void* output, std::size_t count, std::int64_t channel) noexcept {
          target().kernels().layer_normalization->float_group({.input = static_cast<const float*>(input),
                                                               .output = static_cast<float*>(output),
                                                               .channels = channels_,
                                                               .count = count / channels_,
                                                               .weight = weight + channel,
                                                               .bias = bias + channel,
                                                               .epsilon = epsilon_});
        });
  }

 private:
  TensorLayout parameters_;
  AxisRows rows_;
  std::size_t channels_;  // of a group
  float epsilon_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_group_normalization(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<GroupNormalization>(std::move(desc), target);
}

}  // namespace dmlcpu
