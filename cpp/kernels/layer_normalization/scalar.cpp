// The normative arithmetic of layer_normalization.h in plain C++.
#include <cstring>

#include "kernels/layer_normalization/layer_normalization.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/scalar.inl.h"
// after the lanes
#include "kernels/lanes/steps_of_sixteen.inl.h"
// after the steps
#include "kernels/layer_normalization/float_row.inl.h"

CodeMoments code_moments(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept {
  CodeMoments moments = {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = static_cast<std::uint32_t>(codes[i] ^ flip);
    moments.sum += code;
    moments.sum_of_squares += code * code;
  }
  return moments;
}

void normalize_codes(const CodeNormalization& row) noexcept {
  for (std::size_t i = 0; i < row.count; ++i) {
    const auto code = static_cast<float>(row.input[i] ^ row.input_flip);
    const float normalized = fused(code, row.factor, row.offset);
    row.output[i] = to_code(fused(normalized, row.weight[i], row.bias[i]), row.output_zero_point, row.output_flip);
  }
}

void channel_moments(const ChannelCodes& run, std::uint32_t* sums, std::uint32_t* sums_of_squares) noexcept {
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* codes = run.codes + pixel * run.pixel_step;
    for (std::size_t c = 0; c < run.channels; ++c) {
      const auto code = static_cast<std::uint32_t>(codes[c] ^ run.flip);
      sums[c] += code;
      sums_of_squares[c] += code * code;
    }
  }
}

void normalize_channels(const ChannelNormalization& run) noexcept {
  for (std::size_t pixel = 0; pixel < run.input.pixels; ++pixel) {
    const std::uint8_t* codes = run.input.codes + pixel * run.input.pixel_step;
    std::uint8_t* output = run.output + pixel * run.output_pixel_step;
    for (std::size_t c = 0; c < run.input.channels; ++c) {
      const float scaled = fused(static_cast<float>(codes[c] ^ run.input.flip), run.factor[c], run.offset[c]);
      output[c] = to_code(scaled, run.output_zero_point, run.output_flip);
    }
  }
}

}  // namespace

constinit const LayerNormalizationKernels scalar::layer_normalization = {.floats = normalize_floats,
                                                                         .float_group = normalize_group,
                                                                         .sum = row_sum,
                                                                         .column_quotients = column_quotients,
                                                                         .moments = code_moments,
                                                                         .codes = normalize_codes,
                                                                         .channel_moments = channel_moments,
                                                                         .channels = normalize_channels};

}  // namespace dmlcpu
