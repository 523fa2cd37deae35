// QUANTIZED_SOFTMAX of many rows at once: softmax.h's softmax of codes, with its exponentials also as bytes, for
// instruction sets that look up bytes faster than floats.
//
// Contract: count, rows >= 1; count elements of each row are read and written, nothing else. Of a row the output may be
// exactly the input, and overlaps nothing otherwise. output_scale is 2^-64 to 2^64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct CodeExponentials {
  float values[256];  // as in softmax.h, none larger than the one before
  // Of each as a multiple of 2^-31, from the lowest byte to the highest.
  std::uint8_t bytes[4][256];
};

struct CodeSoftmaxRows {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::size_t count, rows;
  std::int64_t input_step, output_step;  // from a row to the next
  const CodeExponentials* exponentials;
  std::uint8_t input_flip;
  float output_scale;
  float output_zero_point;
  std::uint8_t output_flip;
};

struct SoftmaxRowsKernels {
  void (*codes)(const CodeSoftmaxRows& rows) noexcept;
};

namespace avx512_vbmi {
extern const SoftmaxRowsKernels softmax_rows;
}

}  // namespace dmlcpu
