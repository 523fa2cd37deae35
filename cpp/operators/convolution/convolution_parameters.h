// The parameters of a quantized convolution's channels, made of its tensors: offsets of the bias, zero points and the
// sums of the filter (convolution_algorithm.h has the formula), multipliers of the scales, and what the algorithm
// arranges of them. Where all that they are made of is owned they are prepared once, else at each dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

// The number of each tensor in the desc of an operator; kAbsent for those that it does not have.
struct ConvolutionTensors {
  std::size_t input, input_scale, input_zero_point;
  std::size_t filter, filter_scale, filter_zero_point;
  std::size_t bias, output_scale, output_zero_point, output;
  std::size_t float_scale, float_bias;  // FLOAT32, of sums that become floats
};

// Null for a tensor that is absent.
template <class Element>
const Element* elements_of(const TensorPointers& tensors, std::size_t number) {
  return number == kAbsent ? nullptr : static_cast<const Element*>(tensors[number]);
}

class ConvolutionParameters {
 public:
  // All arguments outlive it. Throws std::invalid_argument for a parameter that is absent and may not be, or neither of
  // one element nor one a channel: the kernels' memory safety rests on this.
  ConvolutionParameters(const OperatorDesc& desc, const ConvolutionTensors& numbers,
                        const ConvolutionGeometry& geometry, const ConvolutionAlgorithm& algorithm);

  // Fills size() bytes of memory, 64-byte aligned, which begin with what is returned.
  std::size_t size() const { return size_; }
  ChannelParameters prepare(const TensorPointers& tensors, const std::uint8_t* packed_filter,
                            std::uint8_t* memory) const;
  // The same in fewer bytes where the algorithm has arranged all, for what is kept.
  std::size_t kept_size() const { return algorithm_.arranges_all() ? arranged_end_ : size_; }
  void prepare_kept(const TensorPointers& tensors, const std::uint8_t* packed_filter, std::uint8_t* memory) const;

  // The scales and biases that make floats of sums, of an element for each channel, in float_size() bytes, 64-byte
  // aligned; biases are null where there are none.
  struct FloatParameters {
    const float *multiplier, *bias;
  };
  bool makes_floats() const { return numbers_.float_scale != kAbsent; }
  std::size_t float_size() const { return makes_floats() ? 2 * float_bytes() : 0; }
  FloatParameters prepare_floats(const TensorPointers& tensors, std::uint8_t* memory) const;

  // 0x80 where the codes change their signedness for the products, and the input's zero point as these see it.
  std::uint8_t input_flip() const { return algorithm_.reads_signed() ? std::uint8_t{0} : geometry_.input_flip; }
  std::uint8_t filter_flip() const { return filter_flip_; }
  std::int32_t input_zero_point(const TensorPointers& tensors) const;

 private:
  bool requantizes() const { return numbers_.output_scale != kAbsent; }
  // Elements of an array of channels.
  std::size_t channel_elements() const { return geometry_.padded_channels(algorithm_.channels_at_once()); }

  std::size_t float_bytes() const;
  void check_parameters() const;
  // From three arrays of channels in `channels`.
  ChannelParameters arrange(const TensorPointers& tensors, const std::uint8_t* packed_filter, std::uint8_t* memory,
                            std::uint8_t* channels) const;
  bool prepare_offsets(const TensorPointers& tensors, const std::uint8_t* packed_filter, std::int32_t* offset,
                       std::int32_t* filter_zero_point) const;
  void prepare_multipliers(const TensorPointers& tensors, float* multiplier) const;

  const OperatorDesc& desc_;
  ConvolutionTensors numbers_;
  const ConvolutionGeometry& geometry_;
  const ConvolutionAlgorithm& algorithm_;
  DataType input_type_;
  std::uint8_t filter_flip_;
  // Offsets into the memory: behind the ChannelParameters what is arranged, then what it was arranged of, in which the
  // three arrays lie.
  std::size_t arranged_ = 0, arranged_end_ = 0, channels_ = 0, size_ = 0;
  std::size_t offset_ = 0, multiplier_ = 0, filter_zero_point_ = 0;
};

}  // namespace dmlcpu
