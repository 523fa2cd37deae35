// QUANTIZED_LAYER_NORMALIZATION: tensors input, input scale, weight, bias, output zero point, output; attributes axis
// and epsilon, the bits of a float32. Weight and bias are FLOAT32, in units of the output's scale. Of graphs alone.
//
// Of the mean and the factor that operators/normalization/code_moments.h has of a row, in float64:
//
//   factor = f32(f);    offset = f32(-mean * f)
//
// kernels/layer_normalization has the rest.
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/code_parameters.h"
#include "operators/normalization/code_moments.h"
#include "operators/operator.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kInputScale, kWeight, kBias, kOutputZeroPoint, kOutput };

// The scale of what is read, the zero point of what is written.
constexpr CodeTensors kParameters = {kOutput, kInputScale, kOutputZeroPoint};

struct Affine {
  float factor, offset;
};

Affine affine_of(const CodeMoments& moments, std::size_t count, double scale, double epsilon) noexcept {
  const CodeDistribution codes = distribution_of(moments, count, scale, epsilon);
  return {static_cast<float>(codes.factor), static_cast<float>(-codes.mean * codes.factor)};
}

class QuantizedLayerNormalization final : public CompiledOperator {
 public:
  QuantizedLayerNormalization(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        rows_(desc(), kInput, kOutput, target()),
        epsilon_(float_of_bits(desc(), "epsilon", desc().attribute("epsilon").front())) {
    for (const Tensor tensor : {kWeight, kBias}) rows_.check_parameter(desc(), tensor);
    if (rows_.length() > kMostCodes) throw std::invalid_argument(desc().type + ": rows of more than 2^23 elements");
    check_code_parameters(desc(), kParameters);
  }

  std::string describe() const override {
    return "algorithm: by rows exact moments, affine\nkernel: layer_normalization\n" + rows_.describe();
  }

  std::size_t temporary_size() const override { return rows_.temporary_size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const LayerNormalizationKernels& kernels = *target().kernels().layer_normalization;
    const CodeParameters parameters = code_parameters(desc(), tensors, kParameters);
    const auto *weight = static_cast<const float*>(tensors[kWeight]), *bias = static_cast<const float*>(tensors[kBias]);
    const std::uint8_t input_flip = offset_flip(desc().tensor(kInput).type);
    rows_.run(tensors[kInput], tensors[kOutput], [&](const void* input, void* output, std::size_t count) noexcept {
      const auto* codes = static_cast<const std::uint8_t*>(input);
      const Affine affine = affine_of(kernels.moments(codes, count, input_flip), count, parameters.scale, epsilon_);
      kernels.codes({.input = codes,
                     .output = static_cast<std::uint8_t*>(output),
                     .count = count,
                     .weight = weight,
                     .bias = bias,
                     .factor = affine.factor,
                     .offset = affine.offset,
                     .input_flip = input_flip,
                     .output_zero_point = parameters.zero_point,
                     .output_flip = parameters.flip});
    });
  }

 private:
  AxisRows rows_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_layer_normalization(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedLayerNormalization>(std::move(desc), target);
}

}  // namespace dmlcpu
