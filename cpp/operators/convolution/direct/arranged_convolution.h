// What algorithms share whose kernels read parameters of channels in an order of their own:
//
//   packed filter          part 0 | part 1 | ... | the sum of each channel's codes | a byte of the algorithm's own
//   arranged parameters    offsets | multipliers | zero points of the filter, each in the order of the kernel
//
// Multipliers are there unless the output is of sums, zero points if any may be other than 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

class ArrangedConvolution : public ConvolutionAlgorithm {
 public:
  std::size_t packed_filter_size() const final { return filter_size_; }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const final {
    return reinterpret_cast<const std::int32_t*>(packed + sums_);
  }
  std::size_t arranged_size() const final { return arranged_size_; }
  bool arranges_all() const final { return true; }
  ChannelParameters arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                            std::int32_t input_zero_point, std::uint8_t* arranged) const final;

 protected:
  // A filter of so many parts of so many bytes, and the channels in the order of the kernel, where those that the
  // output lacks have parameters of 0. Throws std::bad_alloc where that is beyond the address space.
  ArrangedConvolution(const ConvolutionGeometry& geometry, std::size_t parts, std::size_t part_bytes,
                      std::vector<std::size_t> order);

  std::int32_t* packed_sums(std::uint8_t* packed) const { return reinterpret_cast<std::int32_t*>(packed + sums_); }
  // Where the byte stands in the packed filter.
  std::size_t own_byte() const { return own_byte_; }

 private:
  template <class Value>
  const Value* ordered(const Value* of_channels, std::uint8_t* arranged) const;

  std::vector<std::size_t> order_;         // the first channel where there is none
  std::vector<std::size_t> empty_places_;  // those
  bool has_multipliers_;
  std::size_t sums_ = 0, own_byte_ = 0, filter_size_ = 0;
  std::size_t offset_ = 0, multiplier_ = 0, filter_zero_point_ = 0, arranged_size_ = 0;
};

}  // namespace dmlcpu
