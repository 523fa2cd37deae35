// Rows of count elements that a kernel takes at once: the fields that QuantizeRun and DequantizeRun share. A scale and
// a zero point are for each row, or (per_element) for each element of a row, the same ones in every row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dequantize/dequantize.h"
#include "kernels/quantize/quantize.h"

namespace dmlcpu {

struct ScaledBlock {
  const void* input;
  void* output;
  std::size_t count;
  const float* scale;
  const float* zero_point;
  bool per_element;
  std::size_t rows;
  std::size_t input_row_stride;
  std::size_t output_row_stride;
};

inline QuantizeRun quantize_run(const ScaledBlock& block, std::uint8_t flip) {
  return {.input = block.input,
          .output = static_cast<std::uint8_t*>(block.output),
          .count = block.count,
          .scale = block.scale,
          .zero_point = block.zero_point,
          .per_element = block.per_element,
          .flip = flip,
          .rows = block.rows,
          .input_row_stride = block.input_row_stride,
          .output_row_stride = block.output_row_stride};
}

inline DequantizeRun dequantize_run(const ScaledBlock& block) {
  return {.input = block.input,
          .output = block.output,
          .count = block.count,
          .scale = block.scale,
          .zero_point = block.zero_point,
          .per_element = block.per_element,
          .rows = block.rows,
          .input_row_stride = block.input_row_stride,
          .output_row_stride = block.output_row_stride};
}

}  // namespace dmlcpu
