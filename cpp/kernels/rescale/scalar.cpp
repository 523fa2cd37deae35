// The normative arithmetic of rescale.h in plain C++. Sums are taken in uint32, which wraps.
#include <cstring>

#include "kernels/rescale/rescale.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/half.inl.h"

inline float read(const float* bias) noexcept { return *bias; }
inline float read(const Half* bias) noexcept { return widen(*bias); }
inline void write(float* output, float value) noexcept { *output = value; }
inline void write(Half* output, float value) noexcept { *output = narrow(value); }
inline float with_one_nan(float value) noexcept { return value == value ? value : __builtin_nanf(""); }

// Calls body(row, column, total) for all elements.
template <class Body>
inline void for_each_total(const RescaleBlock& block, Body body) noexcept {
  for (std::size_t row = 0; row < block.m; ++row) {
    const std::int32_t* sums = block.sums + row * block.sums_row_stride;
    for (std::size_t column = 0; column < block.n; ++column) {
      std::uint32_t total = static_cast<std::uint32_t>(sums[column]);
      if (block.row_zero_point != nullptr) {
        total -= static_cast<std::uint32_t>(block.row_zero_point[row]) *
                 static_cast<std::uint32_t>(block.column_sum[column]);
      }
      body(row, column, static_cast<std::int32_t>(total));
    }
  }
}

void to_sums(const RescaleBlock& block) noexcept {
  auto* output = static_cast<std::int32_t*>(block.output);
  for_each_total(block, [&](std::size_t row, std::size_t column, std::int32_t total) noexcept {
    output[row * block.output_row_stride + column] = total;
  });
}

void to_codes(const RescaleBlock& operands) noexcept {
  const RescaleBlock block = operands;  // a copy: bytes of output could alias the original
  auto* output = static_cast<std::uint8_t*>(block.output);
  for_each_total(block, [&](std::size_t row, std::size_t column, std::int32_t total) noexcept {
    const float scaled = static_cast<float>(total) * (block.row_multiplier[row] * block.column_multiplier[column]);
    output[row * block.output_row_stride + column] = to_code(scaled, block.row_output_zero_point[row], block.flip);
  });
}

template <class Output>
void to_floats(const RescaleBlock& block) noexcept {
  auto* output = static_cast<Output*>(block.output);
  const auto* bias = static_cast<const Output*>(block.bias);
  for_each_total(block, [&](std::size_t row, std::size_t column, std::int32_t total) noexcept {
    const float multiplier = block.row_multiplier[row] * block.column_multiplier[column];
    const float value = static_cast<float>(total);
    const float scaled = bias == nullptr
                             ? value * multiplier
                             : __builtin_fmaf(value, multiplier, read(bias + row * block.bias_row_stride + column));
    write(output + row * block.output_row_stride + column, with_one_nan(scaled));
  });
}

// Sums are read as bytes, since the output may be in their place.
void scale_columns(const ScaleColumnsBlock& block) noexcept {
  for (std::size_t i = 0; i < block.runs * block.m; ++i) {
    const std::size_t run = i / block.m, row = i % block.m;
    const std::int32_t* sums = block.sums + run * block.sums_run_stride + row * block.sums_row_stride;
    float* output = block.output + run * block.output_run_stride + row * block.output_row_stride;
    for (std::size_t column = 0; column < block.n; ++column) {
      std::int32_t sum;
      std::memcpy(&sum, sums + column, sizeof(sum));
      const float scaled = static_cast<float>(sum) * block.multiplier[column];
      const float value = block.bias == nullptr ? scaled : scaled + block.bias[column];
      std::memcpy(output + column, &value, sizeof(value));
    }
  }
}

}  // namespace

constinit const RescaleKernels scalar::rescale = {.to_sums = to_sums,
                                                  .to_codes = to_codes,
                                                  .to_float32 = to_floats<float>,
                                                  .to_float16 = to_floats<Half>,
                                                  .scale_columns = scale_columns};

}  // namespace dmlcpu
