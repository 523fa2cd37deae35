// From the int32 sums of a matrix product to its results, where these depend on the row: what gemm/gemm.h, which knows
// terms of columns only, leaves to a second pass over sums that are still in a cache.
//
//   total[row][column]      = sums[row][column] - row_zero_point[row] * column_sum[column]        modulo 2^32
//   multiplier[row][column] = row_multiplier[row] * column_multiplier[column]
//
//   to_sums       total
//   to_codes      sat(rne(f32(total) * multiplier) + row_output_zero_point[row])
//   to_float32    f32(total) * multiplier, or fma(f32(total), multiplier, bias[row][column])
//   to_float16    the float32 result rounded to nearest even
//
//   scale_columns, which knows terms of columns only, and another formula than to_float32
//                 f32(sums[row][column]) * multiplier[column], plus bias[column], or without it: each of the two
//                 rounded, not fused. NaN gives NaN.
//
// The conversion to float32 rounds to even above 2^24, the multiplier is rounded once. Codes are gemm.h's: rne and sat,
// the offset domain of row_output_zero_point and the flip. The bias is of the output's type; FLOAT16 is widened. The
// multiply-add with a bias is fused, that without one a product. Floats that are no numbers are all the same, quiet,
// positive and without payload: which one is left where two meet depends on the instruction.
//
// Contract: m rows of n elements at the strides given, in elements. row_zero_point and column_sum may both be null:
// nothing is subtracted; bias may be null; what a function does not name is not read. The output overlaps nothing, but
// those of to_sums and of scale_columns may be its sums. Reads and writes nothing else; no alignment beyond the
// element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct RescaleBlock {
  const std::int32_t* sums;
  std::size_t sums_row_stride;
  std::size_t m;
  std::size_t n;
  const std::int32_t* row_zero_point;
  const std::int32_t* column_sum;
  const float* row_multiplier;
  const float* column_multiplier;
  const float* row_output_zero_point;
  std::uint8_t flip;
  const void* bias;
  std::size_t bias_row_stride;
  void* output;
  std::size_t output_row_stride;
};

struct ScaleColumnsBlock {
  const std::int32_t* sums;
  std::size_t sums_run_stride;  // of runs of m rows each
  std::size_t sums_row_stride;
  std::size_t runs;
  std::size_t m;
  std::size_t n;
  const float* multiplier;
  const float* bias;  // or null
  float* output;
  std::size_t output_run_stride;
  std::size_t output_row_stride;
};

using RescaleFunction = void (*)(const RescaleBlock& block) noexcept;
using ScaleColumnsFunction = void (*)(const ScaleColumnsBlock& block) noexcept;

struct RescaleKernels {
  RescaleFunction to_sums;
  RescaleFunction to_codes;
  RescaleFunction to_float32;
  RescaleFunction to_float16;
  ScaleColumnsFunction scale_columns;
};

namespace scalar {
extern const RescaleKernels rescale;
}
namespace avx2 {
extern const RescaleKernels rescale;
}
namespace avx512_vnni {
extern const RescaleKernels rescale;
}

}  // namespace dmlcpu
