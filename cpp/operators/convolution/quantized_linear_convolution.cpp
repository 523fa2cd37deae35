// QUANTIZED_LINEAR_CONVOLUTION, CONVOLUTION_INTEGER, which ends in the sums, and of graphs alone
// CONVOLUTION_INTEGER_TO_FLOAT: the filter, the parameters of channels and the dispatches of whichever algorithm was
// chosen.
//
// CONVOLUTION_INTEGER_TO_FLOAT: tensors input, input zero point, filter, filter zero point, as CONVOLUTION_INTEGER has
// them, scale, bias (or absent) and output, FLOAT32. Scale and bias have one element, or one for each output channel.
//   output = f32(sum) * scale + bias          each of the conversion, the product and the sum rounded, none fused
#include <memory>
#include <optional>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_choice.h"
#include "operators/convolution/convolution_parameters.h"
#include "operators/operator.h"
#include "operators/strides/staging.h"
#include "runtime/aligned_buffer.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

constexpr ConvolutionTensors kQuantizedLinear = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, kAbsent, kAbsent};
constexpr ConvolutionTensors kInteger = {0, kAbsent, 1, 2, kAbsent, 3, kAbsent, kAbsent, kAbsent, 4, kAbsent, kAbsent};
constexpr ConvolutionTensors kIntegerToFloat = {0, kAbsent, 1, 2, kAbsent, 3, kAbsent, kAbsent, kAbsent, 6, 4, 5};

ConvolutionGeometry geometry_of(const OperatorDesc& desc, const ConvolutionTensors& numbers) {
  ConvolutionGeometry geometry =
      convolution_geometry(desc, desc.tensor(numbers.input), desc.tensor(numbers.filter), desc.tensor(numbers.output));
  // An absent zero point is 0 in the filter's own type, which is -128 once UINT8 codes have become signed.
  geometry.has_filter_zero_points =
      desc.tensors[numbers.filter_zero_point].has_value() || desc.tensor(numbers.filter).type != DataType::int8;
  geometry.input_flip = offset_flip(desc.tensor(numbers.input).type);
  return geometry;
}

class Convolution final : public CompiledOperator {
 public:
  Convolution(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const ConvolutionTensors& numbers)
      : CompiledOperator(std::move(operator_desc), execution_target),
        numbers_(numbers),
        output_type_(desc().tensor(numbers.output).type),
        geometry_(geometry_of(desc(), numbers)),
        algorithm_(choose_algorithm(geometry_, target())),
        parameters_(desc(), numbers_, geometry_, *algorithm_) {
    prepares_once_ = all_owned(prepared_tensors() | present({numbers.input_zero_point, numbers.filter}));

    BufferLayout layout;
    packed_filter_ = layout.take(geometry_.has_owned_filter ? 0 : algorithm_->packed_filter_size());
    prepared_parameters_ = layout.take(prepares_once_ ? 0 : parameters_.size());
    float_parameters_ = layout.take(parameters_.float_size());
    algorithm_scratch_ = layout.take(algorithm_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }
  std::string describe() const override {
    return algorithm_->describe() + "\nthreads: " + threads_that_pay(geometry_, target()) +
           "\nfilter: " + (geometry_.has_owned_filter ? "packed once, " : "packed at each dispatch, ") +
           std::to_string(algorithm_->packed_filter_size()) + " bytes" +
           (parameters_.makes_floats() ? "\nsums: scaled to floats in the task that made them" : "");
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != numbers_.filter) return std::nullopt;
    AlignedBuffer packed(algorithm_->packed_filter_size());
    algorithm_->pack_filter(static_cast<const std::uint8_t*>(data), parameters_.filter_flip(), packed.data());
    return packed;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == numbers_.filter ? algorithm_->packed_filter_size() : CompiledOperator::packed_owned_size(tensor);
  }

  std::vector<std::size_t> packing(std::size_t tensor) const override {
    return tensor == numbers_.filter ? algorithm_->packing() : CompiledOperator::packing(tensor);
  }

  std::size_t prepared_size() const override { return prepares_once_ ? parameters_.kept_size() : 0; }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (!prepares_once_) return;
    parameters_.prepare_kept(owned, static_cast<const std::uint8_t*>(owned[numbers_.filter]), prepared);
  }
  TensorSet prepared_only() const override { return prepares_once_ ? prepared_tensors() : TensorSet{}; }

  void run(const TensorPointers& tensors) const override { convolve(tensors, nullptr); }
  void run_with_stages(const TensorPointers& tensors, std::span<const ElementStage> stages) const override {
    const CodesEpilogue epilogue(stages, static_cast<const std::uint8_t*>(tensors[numbers_.output]));
    convolve(tensors, &epilogue);
  }

 private:
  // What ends in parameters of channels; the input's zero point does as well, but each dispatch reads it.
  TensorSet prepared_tensors() const {
    return present({numbers_.input_scale, numbers_.filter_scale, numbers_.filter_zero_point, numbers_.bias,
                    numbers_.output_scale});
  }

  void convolve(const TensorPointers& tensors, const CodesEpilogue* epilogue) const {
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    const auto* filter = static_cast<const std::uint8_t*>(tensors[numbers_.filter]);
    if (!geometry_.has_owned_filter) {
      algorithm_->pack_filter(filter, parameters_.filter_flip(), scratch + packed_filter_);
      filter = scratch + packed_filter_;
    }
    const ChannelParameters channels = prepares_once_
                                           ? *reinterpret_cast<const ChannelParameters*>(prepared())
                                           : parameters_.prepare(tensors, filter, scratch + prepared_parameters_);
    std::optional<ScaledSums> to_floats;
    if (parameters_.makes_floats()) {
      const auto [multiplier, bias] = parameters_.prepare_floats(tensors, scratch + float_parameters_);
      to_floats.emplace(*target().kernels().rescale, multiplier, bias);
    }
    const std::uint8_t output_flip = offset_flip(output_type_);
    algorithm_->run(
        {.source = {.data = static_cast<const std::uint8_t*>(tensors[numbers_.input]),
                    .flip = parameters_.input_flip(),
                    .zero_point = static_cast<std::uint8_t>(parameters_.input_zero_point(tensors))},
         .filter = filter,
         .channels = channels,
         .output_zero_point =
             value_as_float(elements_of<void>(tensors, numbers_.output_zero_point), output_type_) + output_flip,
         .output_flip = output_flip,
         .output = static_cast<std::uint8_t*>(tensors[numbers_.output]),
         .epilogue = epilogue,
         .to_floats = to_floats ? &*to_floats : nullptr},
        scratch + algorithm_scratch_);
  }

  ConvolutionTensors numbers_;
  DataType output_type_;
  ConvolutionGeometry geometry_;
  std::unique_ptr<ConvolutionAlgorithm> algorithm_;
  ConvolutionParameters parameters_;
  bool prepares_once_ = false;  // the parameters of channels, at initialize
  // Offsets into the scratch buffer.
  std::size_t packed_filter_ = 0, prepared_parameters_ = 0, float_parameters_ = 0, algorithm_scratch_ = 0;
  std::size_t scratch_size_ = 0;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_convolution(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Convolution>(std::move(desc), target, kQuantizedLinear);
}

std::unique_ptr<CompiledOperator> compile_convolution_integer(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Convolution>(std::move(desc), target, kInteger);
}

std::unique_ptr<CompiledOperator> compile_convolution_integer_to_float(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Convolution>(std::move(desc), target, kIntegerToFloat);
}

}  // namespace dmlcpu
