// How kernels take the rows of a softmax.
#pragma once

#include "operators/attributes.h"
#include "operators/strides/axis_rows.h"

namespace dmlcpu {

// Short rows take a lane of the kernel each: where their elements are neighbours, those of up to so many.
inline AxisRows::Results results_of_softmax(const OperatorDesc& desc, const TensorLayout& input,
                                            const TensorLayout& output, std::size_t most_neighbours) {
  const std::size_t axis = index_attribute(desc, "axis", output.rank);
  const bool has_runs = axis < input.rank && (input.strides[axis] == 1 || output.strides[axis] == 1);
  const auto length = static_cast<std::size_t>(output.sizes[axis]);
  return length <= (has_runs ? most_neighbours : kMostSoftmaxColumnElements) ? AxisRows::Results::each_of_columns
                                                                             : AxisRows::Results::each;
}

}  // namespace dmlcpu
