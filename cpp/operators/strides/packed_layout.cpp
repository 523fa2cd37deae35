#include "operators/strides/packed_layout.h"

#include <stdexcept>

namespace dmlcpu {

TensorLayout packed(TensorLayout layout) {
  layout.strides = {};
  std::int64_t stride = 1;
  for (std::size_t axis = layout.rank; axis-- > 0;) {
    layout.strides[axis] = stride;
    if (__builtin_mul_overflow(stride, layout.sizes[axis], &stride))
      throw std::invalid_argument("the sizes of a tensor overflow");
  }
  return layout;
}

bool same_strides(const TensorLayout& layout, const Extents& strides) {
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (layout.sizes[axis] > 1 && layout.strides[axis] != strides[axis]) return false;
  }
  return true;
}

}  // namespace dmlcpu
