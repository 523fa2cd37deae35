// What algorithms whose lanes are channels keep of them, and where: in the packed filter codes, then the sum of each
// channel's; of the parameters three arrays in the order of the lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

class ArrangedChannels {
 public:
  // A filter of count parts of so many bytes, the sums of its channels, and parameters of so many lanes. Throws
  // std::bad_alloc where that is beyond the address space.
  ArrangedChannels(const ConvolutionGeometry& geometry, std::size_t parts, std::size_t part_bytes, std::size_t lanes)
      : has_multipliers_(!geometry.ends_in_sums()) {
    BufferLayout filter;
    filter.take(parts, part_bytes);
    sums_ = filter.take(static_cast<std::size_t>(geometry.output_channels), sizeof(std::int32_t));
    filter_size_ = filter.size();
    BufferLayout arranged;
    offset_ = arranged.take(lanes, sizeof(std::int32_t));
    multiplier_ = arranged.take(has_multipliers_ ? lanes : 0, sizeof(float));
    filter_zero_point_ = arranged.take(geometry.has_filter_zero_points ? lanes : 0, sizeof(std::int32_t));
    arranged_size_ = arranged.size();
  }

  std::size_t packed_filter_size() const { return filter_size_; }
  std::int32_t* filter_sums(std::uint8_t* packed) const { return reinterpret_cast<std::int32_t*>(packed + sums_); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const {
    return reinterpret_cast<const std::int32_t*>(packed + sums_);
  }

  std::size_t arranged_size() const { return arranged_size_; }
  // order(of_channels, of_lanes) fills an array of one type; what is null stays null.
  template <class Order>
  ChannelParameters arrange(const ChannelParameters& channels, std::uint8_t* arranged, const Order& order) const {
    const auto ordered = [&]<class Value>(const Value* of_channels, std::size_t offset) -> const Value* {
      if (of_channels == nullptr) return nullptr;
      auto* of_lanes = reinterpret_cast<Value*>(arranged + offset);
      order(of_channels, of_lanes);
      return of_lanes;
    };
    return {.offset = ordered(channels.offset, offset_),
            .multiplier = has_multipliers_ ? ordered(channels.multiplier, multiplier_) : nullptr,
            .filter_zero_point = ordered(channels.filter_zero_point, filter_zero_point_)};
  }

 private:
  bool has_multipliers_;
  std::size_t sums_, filter_size_, offset_, multiplier_, filter_zero_point_, arranged_size_;
};

}  // namespace dmlcpu
