// The scale and the zero point of a tensor of 8-bit codes, one of each, as kernels take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "operators/operator.h"
#include "operators/strides/staging.h"

namespace dmlcpu {

// Tensor numbers of codes with a scale and their optional zero point. The scale may be that of other codes.
struct CodeTensors {
  std::size_t codes, scale, zero_point;
};

struct CodeParameters {
  float scale;
  float zero_point;  // in the offset domain: an integer of 0..255
  std::uint8_t flip;
};

// Throws std::invalid_argument unless the parameters are one element each and the zero point is of the codes' type.
inline void check_code_parameters(const OperatorDesc& desc, const CodeTensors& tensors) {
  const DataType type = desc.tensor(tensors.codes).type;
  const std::optional<TensorLayout>& zero_point = desc.tensors.at(tensors.zero_point);
  if (desc.tensor(tensors.scale).element_count() != 1 || (zero_point && zero_point->element_count() != 1)) {
    throw std::invalid_argument(desc.type + ": a scale or a zero point has other than one element");
  }
  if (zero_point && zero_point->type != type) {
    throw std::invalid_argument(desc.type + ": a zero point is not of its codes' data type");
  }
}

inline CodeParameters code_parameters(const OperatorDesc& desc, const TensorPointers& pointers,
                                      const CodeTensors& tensors) {
  const DataType type = desc.tensor(tensors.codes).type;
  const std::uint8_t flip = offset_flip(type);
  return {.scale = value_as_float(pointers[tensors.scale], DataType::float32),
          .zero_point = value_as_float(pointers[tensors.zero_point], type) + flip,
          .flip = flip};
}

}  // namespace dmlcpu
