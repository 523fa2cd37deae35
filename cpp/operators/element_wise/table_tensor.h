// The tensor of CODE_TABLE and FLOAT_TABLE that has a value for each code.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "operators/strides/packed_layout.h"

namespace dmlcpu {

// Kernels read 256 elements from the table's first.
inline void check_table(const OperatorDesc& desc, std::size_t tensor) {
  const TensorLayout& table = desc.tensor(tensor);
  if (table.element_count() != 256 || !is_packed(table)) {
    throw std::invalid_argument(desc.type + ": the table is 256 contiguous elements");
  }
}

}  // namespace dmlcpu
