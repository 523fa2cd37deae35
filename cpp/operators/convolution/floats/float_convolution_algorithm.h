// The ways to compute FLOAT_CONVOLUTION, behind one interface, as convolution_algorithm.h has it for codes. Whichever
// is taken, an output element is the same chain of fused multiply-adds over the taps of its window and their channels:
//
//   sum = fma(input[row][column][channel], filter[row][column][channel], sum)
//
// channels innermost, columns outside, rows outermost, begun at the channel's bias, or at 0 where there is none. Taps
// in the padding are zeros, and count. Stages are applied to sums that are done, in the order of the desc's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/convolution/convolution_geometry.h"
#include "operators/operator.h"

namespace dmlcpu {

struct FloatConvolutionDispatch {
  const float* input;
  const float* filter;  // packed, 64-byte aligned
  const float* bias;    // an element for each output channel; null where there is none
  float* output;
  FloatsEpilogue epilogue;  // of the output's pixels and channels
};

class FloatConvolutionAlgorithm {
 public:
  virtual ~FloatConvolutionAlgorithm() = default;
  FloatConvolutionAlgorithm(const FloatConvolutionAlgorithm&) = delete;
  FloatConvolutionAlgorithm& operator=(const FloatConvolutionAlgorithm&) = delete;

  // Bytes of the packed filter.
  virtual std::size_t packed_filter_size() const = 0;
  // From a filter of the geometry's strides.
  virtual void pack_filter(const float* filter, float* packed) const = 0;

  // How, in numbers: algorithms with the same ones pack a filter of given sizes and strides alike.
  virtual std::vector<std::size_t> packing() const = 0;

  // Bytes of scratch memory that run() works in, 64-byte aligned.
  virtual std::size_t scratch_size() const = 0;
  virtual void run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const = 0;

  // What was chosen, one property a line.
  virtual std::string describe() const = 0;

 protected:
  FloatConvolutionAlgorithm() = default;
};

// A product of matrices, the windows of pixels by the filter. The first channels of the input's groups are
// group_stride elements apart.
std::unique_ptr<FloatConvolutionAlgorithm> make_float_product_convolution(const ConvolutionGeometry& geometry,
                                                                          std::int64_t group_stride,
                                                                          const ExecutionTarget& target);

// Whether there are many groups of few channels and few enough taps. The channels of the input have to lie by their
// place in the group: those that are the first of theirs are neighbours, then the second ones ...
bool float_grouped_applies(const ConvolutionGeometry& geometry);
std::unique_ptr<FloatConvolutionAlgorithm> make_float_grouped_convolution(const ConvolutionGeometry& geometry,
                                                                          const ExecutionTarget& target);

}  // namespace dmlcpu
