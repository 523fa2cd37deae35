// Interpolation between the pixels of an image (QUANTIZED_RESAMPLE), first along rows, then between two rows.
//
//   columns   output[column * channels + c] = l + (u - l) * weight[column]
//             with l = input[lower[column] + c], u = input[upper[column] + c] for c below channels
//   rows      output[i] = sat(rne((v * input_scale) / output_scale) + output_zero_point)
//             with v = top[i] + (bottom[i] - top[i]) * weight
//
// float32, each operation rounded on its own (never fused). The input of columns is one row of code minus zero point,
// top and bottom are outputs of columns. The output's zero point is in the offset domain of add/add.h; rne rounds half
// to even, sat clamps to the output type and sends NaN to its lowest value.
//
// Contract: reads and writes what the formulas name, nothing else; operands do not overlap, but top may be bottom;
// lower and upper are not negative; no alignment beyond the element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct ResampleColumns {
  const float* input;
  const std::int32_t* lower;
  const std::int32_t* upper;
  const float* weight;
  std::size_t columns;
  std::size_t channels;
  float* output;
};

struct ResampleRows {
  const float* top;
  const float* bottom;
  float weight;
  std::size_t count;
  float input_scale;
  float output_scale;
  float output_zero_point;
  std::uint8_t output_flip;
  std::uint8_t* output;
};

struct ResampleKernels {
  void (*columns)(const ResampleColumns& run) noexcept;
  void (*rows)(const ResampleRows& run) noexcept;
};

namespace scalar {
extern const ResampleKernels resample;
}
namespace avx2 {
extern const ResampleKernels resample;
}
namespace avx512_vnni {
extern const ResampleKernels resample;
}

}  // namespace dmlcpu
