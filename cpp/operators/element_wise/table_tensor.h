// The tensor of CODE_TABLE and FLOAT_TABLE that has a value for each code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "operators/operator.h"

namespace dmlcpu {

// Kernels read 256 elements from the table's first.
inline void check_table(const OperatorDesc& desc, std::size_t tensor) {
  const TensorLayout& table = desc.tensor(tensor);
  std::int64_t packed_stride = 1;
  for (std::size_t axis = table.rank; axis-- > 0;) {
    if (table.sizes[axis] != 1 && table.strides[axis] != packed_stride) packed_stride = 0;
    packed_stride *= table.sizes[axis];
  }
  if (packed_stride != 256) throw std::invalid_argument(desc.type + ": the table is 256 contiguous elements");
}

}  // namespace dmlcpu
