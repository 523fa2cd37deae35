// An algorithm that leaves the filter and its parameters to another one, and brings the tensors to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

class InnerConvolution : public ConvolutionAlgorithm {
 public:
  bool reads_signed() const final { return algorithm_->reads_signed(); }
  std::size_t packed_filter_size() const final { return algorithm_->packed_filter_size(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const final {
    algorithm_->pack_filter(filter, flip, packed);
  }
  std::vector<std::size_t> packing() const final { return algorithm_->packing(); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const final { return algorithm_->filter_sums(packed); }
  std::size_t channels_at_once() const final { return algorithm_->channels_at_once(); }
  std::size_t arranged_size() const final { return algorithm_->arranged_size(); }
  bool arranges_all() const final { return algorithm_->arranges_all(); }
  ChannelParameters arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                            std::int32_t input_zero_point, std::uint8_t* arranged) const final {
    return algorithm_->arrange(channels, packed_filter, input_zero_point, arranged);
  }

 protected:
  std::unique_ptr<ConvolutionAlgorithm> algorithm_;  // made by the constructor of what derives from this
};

}  // namespace dmlcpu
