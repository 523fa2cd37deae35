#include "operators/resampling/resample_taps.h"

#include <stdexcept>

#include "operators/attributes.h"

namespace dmlcpu {
namespace {

std::vector<std::int32_t> checked_indices(const OperatorDesc& desc, const char* name, std::int64_t input_size,
                                          std::int64_t output_size) {
  const std::vector<std::int64_t>& values = desc.attribute(name);
  if (static_cast<std::int64_t>(values.size()) != output_size) {
    throw std::invalid_argument(desc.type + ": " + name + " needs an entry for each output index");
  }
  for (const std::int64_t value : values) {
    if (value < 0 || value >= input_size) {
      throw std::invalid_argument(desc.type + ": an entry of " + name + " is no index of the input");
    }
  }
  return {values.begin(), values.end()};
}

std::vector<float> checked_weights(const OperatorDesc& desc, const char* name, std::int64_t output_size) {
  const std::vector<std::int64_t>& values = desc.attribute(name);
  if (static_cast<std::int64_t>(values.size()) != output_size) {
    throw std::invalid_argument(desc.type + ": " + name + " needs an entry for each output index");
  }
  std::vector<float> weights;
  for (const std::int64_t value : values) {
    const float weight = float_of_bits(desc, name, value);
    if (!(weight >= 0.0F && weight <= 1.0F)) {
      throw std::invalid_argument(desc.type + ": an entry of " + name + " is not within 0 and 1");
    }
    weights.push_back(weight);
  }
  return weights;
}

}  // namespace

void check_resampled_images(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output) {
  if (input.rank != 4 || output.rank != 4 || input.sizes[0] != output.sizes[0] || input.sizes[1] != output.sizes[1]) {
    throw std::invalid_argument(desc.type + ": input and output are not 4-D, or of other images or channels");
  }
  if (input.sizes[2] > INT32_MAX || input.sizes[3] > INT32_MAX) {
    throw std::invalid_argument(desc.type + ": an image of more than 2^31 - 1 rows or columns");
  }
}

Taps row_taps(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output) {
  return {checked_indices(desc, "lower_rows", input.sizes[2], output.sizes[2]),
          checked_indices(desc, "upper_rows", input.sizes[2], output.sizes[2]),
          checked_weights(desc, "row_weights", output.sizes[2])};
}

Taps column_taps(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output) {
  return {checked_indices(desc, "lower_columns", input.sizes[3], output.sizes[3]),
          checked_indices(desc, "upper_columns", input.sizes[3], output.sizes[3]),
          checked_weights(desc, "column_weights", output.sizes[3])};
}

}  // namespace dmlcpu
