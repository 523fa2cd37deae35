// How an axis is interpolated, as two attributes say it: for every output index the first of the source indices that it
// is a weighted sum of, and the weights of this one and of those behind it, equally many for each, as the bits of
// float32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/interpolate/interpolate.h"
#include "operators/operator.h"

namespace dmlcpu {

// Weights of 0 at either end of an output index are left out. So an infinity there is none in the sum, and their
// source indices need not be any.
class WeightedTaps {
 public:
  // Throws std::invalid_argument where there are not as many entries as output indices need, or a weight other than 0
  // is that of no source index.
  WeightedTaps(const OperatorDesc& desc, const char* first, const char* weights, std::int64_t input_size,
               std::int64_t output_size);
  // Of an axis that stays as it is.
  explicit WeightedTaps(std::int64_t size);

  WeightedTaps(WeightedTaps&&) = default;
  WeightedTaps& operator=(WeightedTaps&&) = default;

  const std::vector<InterpolatedPlace>& places() const { return places_; }
  // Whether each output index is the same source index.
  bool unchanged() const { return unchanged_; }

 private:
  InterpolatedPlace place(const OperatorDesc& desc, const char* name, std::int64_t first, std::span<const float> own,
                          std::int64_t input_size) const;

  std::vector<float> weights_;
  std::vector<InterpolatedPlace> places_;  // whose weights are these
  bool unchanged_ = false;
};

}  // namespace dmlcpu
