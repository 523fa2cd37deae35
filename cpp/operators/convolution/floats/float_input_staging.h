// Copies of a float convolution's input, if its channels are no neighbours or if windows can be read as they lie then:
// with the channels as neighbours and, in the second case, with the padding as zeros around each image:
//
//   input {N, C, H, W} -> {n, top + H + bottom, left + W + right, C}
//
// as many images at a time as fit half of the level-2 cache and divide the batch, at least one. Neighbours are copied
// if so many images keep all threads busy. Channels of groups may be wanted by their place in the group:
//
//   groups a, b, c of two channels   [a0 a1 b0 b1 c0 c1] -> [a0 b0 c0 a1 b1 c1]
//
// Otherwise groups whose windows are read as they lie are images of their own, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "operators/convolution/convolution_geometry.h"
#include "operators/strides/strided_copy.h"

namespace dmlcpu {

class FloatInputStaging {
 public:
  enum class Channels : std::uint8_t { of_group_together, by_place_in_group };

  // Throws std::bad_alloc for an image, of elements that repeat, that no memory has.
  FloatInputStaging(const ConvolutionGeometry& geometry, Channels wanted, const ExecutionTarget& target);

  // The convolution of a copy, or of the tensor itself.
  const ConvolutionGeometry& inner() const { return inner_; }
  // Whether the channels of inner() lie by their place in the group, so that inner().input.c is of no use.
  bool lies_by_place_in_group() const {
    return reorders_ || (inner_.groups == inner_.input_channels && inner_.input.c == 1);
  }
  // Elements from the first channel of a group to that of the next, in inner()'s input.
  std::int64_t group_stride() const { return group_stride_; }
  // How many images run() copies, all of them where it copies none.
  std::int64_t images() const { return inner_.batch; }

  // Bytes of the copies.
  std::size_t size() const;
  // The first element of the images for inner(): from input, or from `copies`, which it writes.
  const float* run(const float* input, float* copies) const;

  // A line, empty where nothing is copied.
  std::string describe() const;

 private:
  void add_padding();
  void clear_padding(float* copies) const;

  ConvolutionGeometry geometry_, inner_;
  bool reorders_;
  std::int64_t group_stride_;
  std::int64_t top_ = 0, left_ = 0;                    // rows and columns of padding before an image
  std::int64_t copied_height_ = 0, copied_width_ = 0;  // of an image, in a copy
  std::optional<StridedCopy> copy_;
};

}  // namespace dmlcpu
