// QUANTIZED_LINEAR_CONVOLUTION, and CONVOLUTION_INTEGER, which ends in the sums: the parameters of a dispatch, for
// whichever algorithm was chosen.
#include <algorithm>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_choice.h"
#include "operators/operator_table.h"
#include "operators/staging.h"
#include "runtime/aligned_buffer.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

// The number of each tensor in the desc of an operator; kAbsent for those that it does not have.
struct TensorNumbers {
  std::size_t input, input_scale, input_zero_point;
  std::size_t filter, filter_scale, filter_zero_point;
  std::size_t bias, output_scale, output_zero_point, output;
};

constexpr TensorNumbers kQuantizedLinear = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
constexpr TensorNumbers kInteger = {0, kAbsent, 1, 2, kAbsent, 3, kAbsent, kAbsent, kAbsent, 4};

ConvolutionGeometry geometry_of(const OperatorDesc& desc, const TensorNumbers& numbers) {
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
  Convolution(OperatorDesc operator_desc, ExecutionTarget execution_target, const TensorNumbers& numbers)
      : CompiledOperator(std::move(operator_desc), execution_target),
        numbers_(numbers),
        input_type_(desc().tensor(numbers.input).type),
        output_type_(desc().tensor(numbers.output).type),
        filter_owned_(desc().tensor(numbers.filter).owned),
        geometry_(geometry_of(desc(), numbers)),
        algorithm_(choose_algorithm(geometry_, target())) {
    check_parameters();
    const std::size_t elements = channel_elements();
    BufferLayout channels;
    offset_ = channels.take(elements, sizeof(std::int32_t));
    multiplier_ = channels.take(requantizes() ? elements : 0, sizeof(float));
    filter_zero_point_ = channels.take(geometry_.has_filter_zero_points ? elements : 0, sizeof(std::int32_t));
    channels_size_ = channels.size();
    BufferLayout parameters;
    parameters.take(1, sizeof(ChannelParameters));
    arranged_ = parameters.take(algorithm_->arranged_size());
    arranged_end_ = parameters.size();
    channels_ = parameters.take(channels_size_);
    prepares_once_ = all_owned(prepared_tensors() | present({numbers.input_zero_point, numbers.filter}));

    BufferLayout layout;
    packed_filter_ = layout.take(desc().tensor(numbers.filter).owned ? 0 : algorithm_->packed_filter_size());
    parameters_ = layout.take(prepares_once_ ? 0 : parameters.size());
    algorithm_scratch_ = layout.take(algorithm_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }
  std::string describe() const override {
    return algorithm_->describe() + "\nthreads: " + threads_that_pay(geometry_, target()) +
           "\nfilter: " + (desc().tensor(numbers_.filter).owned ? "packed once, " : "packed at each dispatch, ") +
           std::to_string(algorithm_->packed_filter_size()) + " bytes";
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != numbers_.filter) return std::nullopt;
    AlignedBuffer packed(algorithm_->packed_filter_size());
    algorithm_->pack_filter(static_cast<const std::uint8_t*>(data), filter_flip(), packed.data());
    return packed;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == numbers_.filter ? algorithm_->packed_filter_size() : CompiledOperator::packed_owned_size(tensor);
  }

  std::vector<std::size_t> packing(std::size_t tensor) const override {
    return tensor == numbers_.filter ? algorithm_->packing() : CompiledOperator::packing(tensor);
  }

  std::size_t prepared_size() const override {
    if (!prepares_once_) return 0;
    return algorithm_->arranges_all() ? arranged_end_ : channels_ + channels_size_;
  }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (!prepares_once_) return;
    const auto* filter = static_cast<const std::uint8_t*>(owned[numbers_.filter]);
    AlignedBuffer passing(algorithm_->arranges_all() ? channels_size_ : 0);
    prepare(owned, filter, prepared, passing.size() == 0 ? prepared + channels_ : passing.data());
  }
  TensorSet prepared_only() const override { return prepares_once_ ? prepared_tensors() : TensorSet{}; }

  void run(const TensorPointers& tensors) const override { convolve(tensors, nullptr); }
  void run_with_stages(const TensorPointers& tensors, std::span<const CodeStage> stages) const override {
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
    if (!filter_owned_) {
      algorithm_->pack_filter(filter, filter_flip(), scratch + packed_filter_);
      filter = scratch + packed_filter_;
    }
    const ChannelParameters channels =
        prepares_once_ ? *reinterpret_cast<const ChannelParameters*>(prepared())
                       : prepare(tensors, filter, scratch + parameters_, scratch + parameters_ + channels_);
    const std::uint8_t output_flip = offset_flip(output_type_);
    algorithm_->run(
        {.source = {.data = static_cast<const std::uint8_t*>(tensors[numbers_.input]),
                    .flip = input_flip(),
                    .zero_point = static_cast<std::uint8_t>(input_zero_point(tensors))},
         .filter = filter,
         .channels = channels,
         .output_zero_point =
             value_as_float(elements_of<void>(tensors, numbers_.output_zero_point), output_type_) + output_flip,
         .output_flip = output_flip,
         .output = static_cast<std::uint8_t*>(tensors[numbers_.output]),
         .epilogue = epilogue},
        scratch + algorithm_scratch_);
  }

  std::uint8_t filter_flip() const {
    return static_cast<std::uint8_t>(0x80 ^ offset_flip(desc().tensor(numbers_.filter).type));
  }

  bool requantizes() const { return numbers_.output_scale != kAbsent; }
  // The layout and the elements of a tensor that may be absent.
  const std::optional<TensorLayout>& layout_of(std::size_t number) const {
    static const std::optional<TensorLayout> kNone;
    return number == kAbsent ? kNone : desc().tensors[number];
  }
  template <class Element>
  static const Element* elements_of(const TensorPointers& tensors, std::size_t number) {
    return number == kAbsent ? nullptr : static_cast<const Element*>(tensors[number]);
  }

  std::uint8_t input_flip() const { return algorithm_->reads_signed() ? std::uint8_t{0} : geometry_.input_flip; }
  // As the products see it.
  std::int32_t input_zero_point(const TensorPointers& tensors) const {
    return static_cast<std::int32_t>(value_as_float(tensors[numbers_.input_zero_point], input_type_)) + input_flip();
  }

  // Elements of an array of channels.
  std::size_t channel_elements() const { return geometry_.padded_channels(algorithm_->channels_at_once()); }

  void check_parameters() const;
  // Fills the parameters of channels in channels_size_ bytes, and what is made of them in arranged_end_ bytes of
  // memory, which begin with what is returned.
  ChannelParameters prepare(const TensorPointers& tensors, const std::uint8_t* packed_filter, std::uint8_t* memory,
                            std::uint8_t* channels) const;
  bool prepare_offsets(const TensorPointers& tensors, const std::uint8_t* packed_filter, std::int32_t* offset,
                       std::int32_t* filter_zero_point) const;
  void prepare_multipliers(const TensorPointers& tensors, float* multiplier) const;

  TensorNumbers numbers_;
  DataType input_type_, output_type_;
  bool filter_owned_;
  ConvolutionGeometry geometry_;
  std::unique_ptr<ConvolutionAlgorithm> algorithm_;
  bool prepares_once_ = false;  // the parameters of channels, at initialize
  // Offsets into the memory of these: their ChannelParameters, what is arranged, what it was arranged of, in which the
  // three arrays lie.
  std::size_t arranged_ = 0, arranged_end_ = 0, channels_ = 0, channels_size_ = 0;
  std::size_t offset_ = 0, multiplier_ = 0, filter_zero_point_ = 0;
  // Into the scratch buffer.
  std::size_t packed_filter_ = 0, parameters_ = 0, algorithm_scratch_ = 0, scratch_size_ = 0;
};

// A parameter is read at index channel * stride of its channel axis; an extent of 1 needs no stride.
std::int64_t channel_stride(const std::optional<TensorLayout>& layout) {
  return layout && layout->rank > 1 && layout->sizes[1] > 1 ? layout->strides[1] : 0;
}

void Convolution::check_parameters() const {
  for (const std::size_t number : {numbers_.input_scale, numbers_.filter_scale, numbers_.output_scale}) {
    if (number != kAbsent) desc().tensor(number);
  }
  for (const std::size_t number : {numbers_.filter_scale, numbers_.filter_zero_point, numbers_.bias}) {
    const std::optional<TensorLayout>& layout = layout_of(number);
    if (!layout) continue;
    const std::int64_t channels = layout->rank > 1 ? layout->sizes[1] : 1;
    if (layout->element_count() != channels || (channels != 1 && channels != geometry_.output_channels)) {
      throw std::invalid_argument(desc().type + ": a parameter is neither of one element nor one a channel");
    }
  }
}

ChannelParameters Convolution::prepare(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                       std::uint8_t* memory, std::uint8_t* channels) const {
  auto* offset = reinterpret_cast<std::int32_t*>(channels + offset_);
  auto* multiplier = reinterpret_cast<float*>(channels + multiplier_);
  auto* filter_zero_point =
      geometry_.has_filter_zero_points ? reinterpret_cast<std::int32_t*>(channels + filter_zero_point_) : nullptr;
  const bool any_zero_point = prepare_offsets(tensors, packed_filter, offset, filter_zero_point);
  if (requantizes()) prepare_multipliers(tensors, multiplier);
  const ChannelParameters given = {offset, multiplier, any_zero_point ? filter_zero_point : nullptr};
  return *new (memory)
      ChannelParameters(algorithm_->arrange(given, packed_filter, input_zero_point(tensors), memory + arranged_));
}

// Calls function(stride), with 0 and 1 as constants: for loops that the compiler vectorizes.
template <class Function>
void with_constant_stride(std::int64_t stride, const Function& function) {
  if (stride == 0) return function(std::integral_constant<std::int64_t, 0>());
  if (stride == 1) return function(std::integral_constant<std::int64_t, 1>());
  function(stride);
}

// Fills the integers of channels, of zero points if they are not null; returns whether any of these is other than 0.
bool Convolution::prepare_offsets(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                  std::int32_t* offset, std::int32_t* filter_zero_point) const {
  const std::int32_t* sums = algorithm_->filter_sums(packed_filter);
  const auto* biases = elements_of<std::int32_t>(tensors, numbers_.bias);
  const auto* zero_points = elements_of<std::uint8_t>(tensors, numbers_.filter_zero_point);
  const auto zero_point_of_input = static_cast<std::uint32_t>(input_zero_point(tensors));
  const auto terms = static_cast<std::uint32_t>(geometry_.reduction());
  const std::uint8_t flip = filter_flip();
  constexpr std::uint8_t kNoZeroPoint = 0;
  constexpr std::int32_t kNoBias = 0;
  const std::int64_t zero_point_stride =
      zero_points == nullptr ? 0 : channel_stride(layout_of(numbers_.filter_zero_point));
  const std::int64_t bias_stride = biases == nullptr ? 0 : channel_stride(layout_of(numbers_.bias));
  if (zero_points == nullptr) zero_points = &kNoZeroPoint;
  if (biases == nullptr) biases = &kNoBias;

  const std::int64_t channels = geometry_.output_channels;
  const auto padding = static_cast<std::int64_t>(channel_elements()) - channels;
  std::fill_n(offset + channels, padding, 0);
  if (filter_zero_point != nullptr) std::fill_n(filter_zero_point + channels, padding, 0);
  std::int32_t any_zero_point = 0;
  with_constant_stride(zero_point_stride, [&](auto to_zero_point) {
    with_constant_stride(bias_stride, [&](auto to_bias) {
      std::int32_t any = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int32_t zero_point = static_cast<std::int8_t>(zero_points[c * to_zero_point] ^ flip);
        any |= zero_point;
        if (filter_zero_point != nullptr) filter_zero_point[c] = zero_point;
        offset[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(biases[c * to_bias]) -
                                              zero_point_of_input * static_cast<std::uint32_t>(sums[c]) +
                                              terms * zero_point_of_input * static_cast<std::uint32_t>(zero_point));
      }
      any_zero_point = any;
    });
  });
  return any_zero_point != 0;
}

void Convolution::prepare_multipliers(const TensorPointers& tensors, float* multiplier) const {
  const float input_scale = value_as_float(tensors[numbers_.input_scale], DataType::float32);
  const float output_scale = value_as_float(tensors[numbers_.output_scale], DataType::float32);
  const auto* filter_scales = static_cast<const float*>(tensors[numbers_.filter_scale]);
  const std::int64_t channels = geometry_.output_channels;
  with_constant_stride(channel_stride(layout_of(numbers_.filter_scale)), [&](auto stride) {
    for (std::int64_t c = 0; c < channels; ++c) {
      multiplier[c] = (input_scale * filter_scales[c * stride]) / output_scale;
    }
  });
  // Any values would do behind the last channel, but the bits of some are denormal numbers, which take long to
  // multiply.
  std::fill_n(multiplier + channels, static_cast<std::int64_t>(channel_elements()) - channels, 0.0F);
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_convolution(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Convolution>(std::move(desc), target, kQuantizedLinear);
}

std::unique_ptr<CompiledOperator> compile_convolution_integer(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Convolution>(std::move(desc), target, kInteger);
}

}  // namespace dmlcpu
