// How images {N, C, H, W} are resampled, as attributes say it: of each spatial axis, for every output index, the lower
// and the upper source index (lower_rows, upper_rows, lower_columns, upper_columns) and the weight of the upper one, as
// the bits of a float32 (row_weights, column_weights).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "operators/operator.h"

namespace dmlcpu {

// Source indices and weights along one axis.
struct Taps {
  std::vector<std::int32_t> lower, upper;
  std::vector<float> weight;

  bool nearest() const {
    return std::all_of(weight.begin(), weight.end(), [](float value) { return value == 0.0F; });
  }
};

// Throws std::invalid_argument unless both are 4-D, of the same images and channels, and no longer than INT32 counts.
void check_resampled_images(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output);

// Of checked images. Throws std::invalid_argument where an index is none of the input's, or a weight not of 0..1.
Taps row_taps(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output);
Taps column_taps(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output);

}  // namespace dmlcpu
