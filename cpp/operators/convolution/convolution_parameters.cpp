#include "operators/convolution/convolution_parameters.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "operators/buffer_layout.h"
#include "operators/strides/staging.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

// A parameter is read at index channel * stride of its channel axis; an extent of 1 needs no stride.
std::int64_t channel_stride(const std::optional<TensorLayout>& layout) {
  return layout && layout->rank > 1 && layout->sizes[1] > 1 ? layout->strides[1] : 0;
}

// Calls function(stride), with 0 and 1 as constants: for loops that the compiler vectorizes.
template <class Function>
void with_constant_stride(std::int64_t stride, const Function& function) {
  if (stride == 0) return function(std::integral_constant<std::int64_t, 0>());
  if (stride == 1) return function(std::integral_constant<std::int64_t, 1>());
  function(stride);
}

}  // namespace

ConvolutionParameters::ConvolutionParameters(const OperatorDesc& desc, const ConvolutionTensors& numbers,
                                             const ConvolutionGeometry& geometry, const ConvolutionAlgorithm& algorithm)
    : desc_(desc),
      numbers_(numbers),
      geometry_(geometry),
      algorithm_(algorithm),
      input_type_(desc.tensor(numbers.input).type),
      filter_flip_(static_cast<std::uint8_t>(0x80 ^ offset_flip(desc.tensor(numbers.filter).type))) {
  check_parameters();
  const std::size_t elements = channel_elements();
  BufferLayout channels;
  offset_ = channels.take(elements, sizeof(std::int32_t));
  multiplier_ = channels.take(requantizes() ? elements : 0, sizeof(float));
  filter_zero_point_ = channels.take(geometry_.has_filter_zero_points ? elements : 0, sizeof(std::int32_t));
  BufferLayout all;
  all.take(1, sizeof(ChannelParameters));
  arranged_ = all.take(algorithm_.arranged_size());
  arranged_end_ = all.size();
  channels_ = all.take(channels.size());
  size_ = all.size();
}

std::int32_t ConvolutionParameters::input_zero_point(const TensorPointers& tensors) const {
  return static_cast<std::int32_t>(value_as_float(tensors[numbers_.input_zero_point], input_type_)) + input_flip();
}

void ConvolutionParameters::check_parameters() const {
  for (const std::size_t number :
       {numbers_.input_scale, numbers_.filter_scale, numbers_.output_scale, numbers_.float_scale}) {
    if (number != kAbsent) desc_.tensor(number);
  }
  for (const std::size_t number :
       {numbers_.filter_scale, numbers_.filter_zero_point, numbers_.bias, numbers_.float_scale, numbers_.float_bias}) {
    const std::optional<TensorLayout>& layout = desc_.optional_tensor(number);
    if (!layout) continue;
    const std::int64_t channels = layout->rank > 1 ? layout->sizes[1] : 1;
    if (layout->element_count() != channels || (channels != 1 && channels != geometry_.output_channels)) {
      throw std::invalid_argument(desc_.type + ": a parameter is neither of one element nor one a channel");
    }
  }
}

ChannelParameters ConvolutionParameters::prepare(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                                 std::uint8_t* memory) const {
  return arrange(tensors, packed_filter, memory, memory + channels_);
}

void ConvolutionParameters::prepare_kept(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                         std::uint8_t* memory) const {
  if (!algorithm_.arranges_all()) {
    prepare(tensors, packed_filter, memory);
    return;
  }
  AlignedBuffer channels(size_ - channels_);
  arrange(tensors, packed_filter, memory, channels.data());
}

ChannelParameters ConvolutionParameters::arrange(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                                 std::uint8_t* memory, std::uint8_t* channels) const {
  auto* offset = reinterpret_cast<std::int32_t*>(channels + offset_);
  auto* multiplier = reinterpret_cast<float*>(channels + multiplier_);
  auto* filter_zero_point =
      geometry_.has_filter_zero_points ? reinterpret_cast<std::int32_t*>(channels + filter_zero_point_) : nullptr;
  const bool any_zero_point = prepare_offsets(tensors, packed_filter, offset, filter_zero_point);
  if (requantizes()) prepare_multipliers(tensors, multiplier);
  const ChannelParameters given = {offset, multiplier, any_zero_point ? filter_zero_point : nullptr};
  return *new (memory)
      ChannelParameters(algorithm_.arrange(given, packed_filter, input_zero_point(tensors), memory + arranged_));
}

// Fills the integers of channels, of zero points if they are not null; returns whether any of these is other than 0.
bool ConvolutionParameters::prepare_offsets(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                                            std::int32_t* offset, std::int32_t* filter_zero_point) const {
  const std::int32_t* sums = algorithm_.filter_sums(packed_filter);
  const auto* biases = elements_of<std::int32_t>(tensors, numbers_.bias);
  const auto* zero_points = elements_of<std::uint8_t>(tensors, numbers_.filter_zero_point);
  const auto zero_point_of_input = static_cast<std::uint32_t>(input_zero_point(tensors));
  const auto terms = static_cast<std::uint32_t>(geometry_.reduction());
  const std::uint8_t flip = filter_flip();
  constexpr std::uint8_t kNoZeroPoint = 0;
  constexpr std::int32_t kNoBias = 0;
  const std::int64_t zero_point_stride =
      zero_points == nullptr ? 0 : channel_stride(desc_.optional_tensor(numbers_.filter_zero_point));
  const std::int64_t bias_stride = biases == nullptr ? 0 : channel_stride(desc_.optional_tensor(numbers_.bias));
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

void ConvolutionParameters::prepare_multipliers(const TensorPointers& tensors, float* multiplier) const {
  const float input_scale = value_as_float(tensors[numbers_.input_scale], DataType::float32);
  const float output_scale = value_as_float(tensors[numbers_.output_scale], DataType::float32);
  const auto* filter_scales = static_cast<const float*>(tensors[numbers_.filter_scale]);
  const std::int64_t channels = geometry_.output_channels;
  with_constant_stride(channel_stride(desc_.optional_tensor(numbers_.filter_scale)), [&](auto stride) {
    for (std::int64_t c = 0; c < channels; ++c) {
      multiplier[c] = (input_scale * filter_scales[c * stride]) / output_scale;
    }
  });
  // Any values would do behind the last channel, but the bits of some are denormal numbers, which take long to
  // multiply.
  std::fill_n(multiplier + channels, static_cast<std::int64_t>(channel_elements()) - channels, 0.0F);
}

std::size_t ConvolutionParameters::float_bytes() const {
  return round_up(as_size(geometry_.output_channels) * sizeof(float), kAlignment);
}

ConvolutionParameters::FloatParameters ConvolutionParameters::prepare_floats(const TensorPointers& tensors,
                                                                             std::uint8_t* memory) const {
  const auto of_channels = [&](std::size_t number, std::uint8_t* values) -> const float* {
    const auto* given = elements_of<float>(tensors, number);
    if (given == nullptr) return nullptr;
    auto* prepared = reinterpret_cast<float*>(values);
    with_constant_stride(channel_stride(desc_.optional_tensor(number)), [&](auto stride) {
      for (std::int64_t c = 0; c < geometry_.output_channels; ++c) prepared[c] = given[c * stride];
    });
    return prepared;
  };
  return {of_channels(numbers_.float_scale, memory), of_channels(numbers_.float_bias, memory + float_bytes())};
}

}  // namespace dmlcpu
