// The ways to compute a quantized convolution, behind one interface: how the filter is packed, how much scratch
// memory a dispatch takes, and how it runs. Chosen at compile time from the desc, by the operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/convolution/convolution_geometry.h"
#include "operators/convolution/scaled_sums.h"
#include "operators/operator.h"

namespace dmlcpu {

// The input as the algorithms read it.
struct ActivationSource {
  const std::uint8_t* data;
  std::uint8_t flip;        // 0x80 where codes change their signedness
  std::uint8_t zero_point;  // flip applied; what taps in the padding read
};

// Arrays of an element for each output channel, and zeros for as many more as kernels read behind them.
struct ChannelParameters {
  const std::int32_t* offset;
  const float* multiplier;                // not read where the output is of sums
  const std::int32_t* filter_zero_point;  // null where all are 0
};

// One dispatch. Codes and zero points are as the products see them: activations unsigned, or signed where an algorithm
// reads them so, filters signed. With codes x, w and zero points xz, wz:
//   sum (x - xz)(w - wz) + bias = sum xw - wz * sum x + offset,    offset = bias - xz * sum w + terms * xz * wz
// all modulo 2^32, sums over every tap of the window, those in the padding included.
struct ConvolutionDispatch {
  ActivationSource source;
  const std::uint8_t* filter;  // packed
  ChannelParameters channels;  // as arrange() leaves them
  float output_zero_point;     // in the offset domain, see kernels/gemm/gemm.h
  std::uint8_t output_flip;
  std::uint8_t* output;  // codes, or the bytes of 32-bit sums or of floats
  // Null, or what is applied to codes once they and the channels beside them are there. The output has its channels
  // innermost then, without gaps.
  const CodesEpilogue* epilogue;
  const ScaledSums* to_floats = nullptr;  // null, or what sums become floats by
};

class ConvolutionAlgorithm {
 public:
  virtual ~ConvolutionAlgorithm() = default;
  ConvolutionAlgorithm(const ConvolutionAlgorithm&) = delete;
  ConvolutionAlgorithm& operator=(const ConvolutionAlgorithm&) = delete;

  // Whether INT8 input is read as it is, by products of signed codes: then nothing flips it, nor its zero point.
  virtual bool reads_signed() const { return false; }

  // Bytes of the packed filter. It is 64-byte aligned.
  virtual std::size_t packed_filter_size() const = 0;
  // flip is 0x80 for UINT8 filters, which become signed.
  virtual void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const = 0;
  // See CompiledOperator::packing, which compares the numbers of any two algorithms: those that pack in another way
  // than packed_filter.h begin with a number that no other algorithm does, or return none.
  virtual std::vector<std::size_t> packing() const { return {}; }
  // The sum of each output channel's filter codes, within the packed filter.
  virtual const std::int32_t* filter_sums(const std::uint8_t* packed) const = 0;

  // Channels of which kernels read the parameters together, whether there are as many or not.
  virtual std::size_t channels_at_once() const { return 1; }
  // Brings the parameters of channels into the form that the kernels read, in arranged_size() bytes, 64-byte aligned.
  // They depend on the packed filter and the input's zero point alone, so that they last as long as these.
  virtual std::size_t arranged_size() const { return 0; }
  virtual ChannelParameters arrange(const ChannelParameters& channels, const std::uint8_t* /*packed_filter*/,
                                    std::int32_t /*input_zero_point*/, std::uint8_t* /*arranged*/) const {
    return channels;
  }
  // Whether what arrange() returns is all within `arranged`.
  virtual bool arranges_all() const { return false; }

  // Bytes of scratch memory that run() works in, 64-byte aligned.
  virtual std::size_t scratch_size() const = 0;
  virtual void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const = 0;

  // What was chosen and why, one property a line.
  virtual std::string describe() const = 0;

 protected:
  ConvolutionAlgorithm() = default;
};

// The algorithms, of which convolution_choice.h chooses: whether one applies to a convolution, and what makes it.
using AppliesTo = bool(const ConvolutionGeometry& geometry, const ExecutionTarget& target);
using MakeAlgorithm = std::unique_ptr<ConvolutionAlgorithm>(const ConvolutionGeometry& geometry,
                                                            const ExecutionTarget& target);

// A depthwise convolution of volumes, of windows that make_depthwise_window_convolution() takes. No other algorithm
// reads volumes.
AppliesTo depthwise_volumes_applies;
// A depthwise convolution that reads planes and writes planes, if a kernel does, and copies would not be faster.
AppliesTo depthwise_planes_applies;
MakeAlgorithm make_depthwise_planes_convolution;
// Every channel is a group of its own, and PaddedStrips::applies to the strips of rows that a thread keeps.
AppliesTo depthwise_applies;
MakeAlgorithm make_depthwise_convolution;
// Of these, what a kernel reads where its windows stand, which is what make_depthwise_convolution() takes then.
AppliesTo depthwise_window_applies;
MakeAlgorithm make_depthwise_window_convolution;
// Groups of one input channel and up to eight output channels, as a depthwise convolution of planes, or of channels
// that are neighbours: whichever applies to the input with its channels repeated.
AppliesTo repeated_planes_applies;
MakeAlgorithm make_repeated_planes_convolution;
AppliesTo repeated_channels_applies;
MakeAlgorithm make_repeated_channels_convolution;
// Groups of 4, 8 or 16 channels, as many in as out, more than three to a block of the kernel's lanes, and
// PaddedStrips::applies to their strips.
AppliesTo grouped_applies;
MakeAlgorithm make_grouped_convolution;
// A single group of few output channels in rows of many pixels, whose sums become codes, and PaddedStrips::applies to
// their strips; where a kernel is faster than products.
AppliesTo few_channels_applies;
MakeAlgorithm make_few_channels_convolution;
// The transforms of kernels/winograd, for windows of 3 x 3, where they pay by estimate.
AppliesTo winograd_applies;
MakeAlgorithm make_winograd_convolution;
// A pointwise convolution that reads planes and writes planes, if a kernel multiplies these, and pixels fill it.
AppliesTo planar_product_applies;
MakeAlgorithm make_planar_product_convolution;
// A matrix product: of all others.
MakeAlgorithm make_product_convolution;

}  // namespace dmlcpu
