#include "operators/resampling/weighted_taps.h"

#include <algorithm>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/sizes.h"

namespace dmlcpu {

WeightedTaps::WeightedTaps(const OperatorDesc& desc, const char* first, const char* weights, std::int64_t input_size,
                           std::int64_t output_size) {
  const std::vector<std::int64_t>&firsts = desc.attribute(first), &bits = desc.attribute(weights);
  if (firsts.empty() || firsts.size() != as_size(output_size)) {
    throw std::invalid_argument(desc.type + ": " + first + " needs an entry for each output index");
  }
  if (bits.empty() || bits.size() % firsts.size() != 0) {
    throw std::invalid_argument(desc.type + ": " + weights + " needs equally many entries for each output index");
  }
  weights_.reserve(bits.size());
  for (const std::int64_t value : bits) weights_.push_back(float_of_bits(desc, weights, value));
  const std::size_t taps = bits.size() / firsts.size();
  places_.reserve(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    places_.push_back(place(desc, first, firsts[i], std::span(weights_).subspan(i * taps, taps), input_size));
  }
  unchanged_ = input_size == output_size;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    unchanged_ &= places_[i].first == i && places_[i].count == 1 && places_[i].weights[0] == 1.0F;
  }
}

WeightedTaps::WeightedTaps(std::int64_t size) : weights_{1.0F}, unchanged_(true) {
  places_.reserve(as_size(size));
  for (std::size_t i = 0; i < as_size(size); ++i)
    places_.push_back({.first = i, .count = 1, .weights = weights_.data()});
}

InterpolatedPlace WeightedTaps::place(const OperatorDesc& desc, const char* name, std::int64_t first,
                                      std::span<const float> own, std::int64_t input_size) const {
  const auto counts = [](float weight) { return weight != 0.0F; };
  const auto begin = std::find_if(own.begin(), own.end(), counts);
  const auto end = std::find_if(own.rbegin(), own.rend(), counts).base();
  if (begin == own.end()) throw std::invalid_argument(desc.type + ": an output index has no weight but 0");
  const std::int64_t left_out = begin - own.begin(), count = end - begin;
  // Both bounds are differences of numbers that are not negative: there is no overflow.
  if (first < -left_out || count > input_size || first > input_size - count - left_out) {
    throw std::invalid_argument(desc.type + ": an entry of " + name + " begins where weights are of no source index");
  }
  return {.first = as_size(first + left_out), .count = as_size(count), .weights = &*begin};
}

}  // namespace dmlcpu
