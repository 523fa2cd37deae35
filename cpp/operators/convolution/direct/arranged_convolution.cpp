#include "operators/convolution/direct/arranged_convolution.h"

#include <utility>

#include "operators/buffer_layout.h"
#include "operators/sizes.h"

namespace dmlcpu {

ArrangedConvolution::ArrangedConvolution(const ConvolutionGeometry& geometry, std::size_t parts, std::size_t part_bytes,
                                         std::vector<std::size_t> order)
    : order_(std::move(order)), has_multipliers_(!geometry.ends_in_sums()) {
  const std::size_t channels = as_size(geometry.output_channels);
  for (std::size_t place = 0; place < order_.size(); ++place) {
    if (order_[place] < channels) continue;
    order_[place] = 0;
    empty_places_.push_back(place);
  }
  BufferLayout filter;
  filter.take(parts, part_bytes);
  sums_ = filter.take(channels, sizeof(std::int32_t));
  own_byte_ = filter.take(1);
  filter_size_ = filter.size();
  BufferLayout arranged;
  offset_ = arranged.take(order_.size(), sizeof(std::int32_t));
  multiplier_ = arranged.take(has_multipliers_ ? order_.size() : 0, sizeof(float));
  filter_zero_point_ = arranged.take(geometry.has_filter_zero_points ? order_.size() : 0, sizeof(std::int32_t));
  arranged_size_ = arranged.size();
}

// What is null stays null.
template <class Value>
const Value* ArrangedConvolution::ordered(const Value* of_channels, std::uint8_t* arranged) const {
  if (of_channels == nullptr) return nullptr;
  auto* values = reinterpret_cast<Value*>(arranged);
  std::size_t place = 0;
  for (const std::size_t channel : order_) values[place++] = of_channels[channel];
  for (const std::size_t empty : empty_places_) values[empty] = Value{0};
  return values;
}

ChannelParameters ArrangedConvolution::arrange(const ChannelParameters& channels, const std::uint8_t*, std::int32_t,
                                               std::uint8_t* arranged) const {
  return {.offset = ordered(channels.offset, arranged + offset_),
          .multiplier = has_multipliers_ ? ordered(channels.multiplier, arranged + multiplier_) : nullptr,
          .filter_zero_point = ordered(channels.filter_zero_point, arranged + filter_zero_point_)};
}

}  // namespace dmlcpu
