// The normative arithmetic of float_depthwise.h in plain C++.
#include "kernels/float_depthwise/float_depthwise.h"

namespace dmlcpu {
namespace {

void clip(const FloatBounds* bounds, float* sums, std::size_t count) noexcept {
  if (bounds == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    const float raised = bounds->lower > sums[i] ? bounds->lower : sums[i];
    sums[i] = bounds->upper < raised ? bounds->upper : raised;
  }
}

void convolve(const FloatDepthwiseRun& run) noexcept {
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    float* output = run.output + pixel * run.output_pixel_stride;
    for (std::size_t c = 0; c < run.channels; ++c) output[c] = run.bias == nullptr ? 0.0F : run.bias[c];
    for (std::size_t t = 0; t < run.tap_count; ++t) {
      const float* input = run.taps[t].input + pixel * run.taps[t].step + run.first_channel;
      const float* filter = run.filter + t * run.filter_row_stride;
      for (std::size_t c = 0; c < run.channels; ++c) output[c] = __builtin_fmaf(input[c], filter[c], output[c]);
    }
    clip(run.bounds, output, run.channels);
  }
}

void convolve_windows(const FloatDepthwiseWindows& run) noexcept {
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    float* output = run.output + pixel * run.output_pixel_stride;
    for (std::size_t c = 0; c < run.channels; ++c) output[c] = run.bias == nullptr ? 0.0F : run.bias[c];
    for (std::size_t tap = 0; tap < run.rows * run.columns; ++tap) {
      const float* row = run.image_rows[tap / run.columns];
      const std::size_t column = static_cast<std::size_t>(run.first_column) + pixel * run.stride + tap % run.columns;
      const bool inside = row != nullptr && column < run.image_columns;
      const float* input = inside ? row + column * run.image_step + run.first_channel : nullptr;
      const float* filter = run.filter + tap * run.filter_row_stride;
      for (std::size_t c = 0; c < run.channels; ++c) {
        output[c] = __builtin_fmaf(inside ? input[c] : 0.0F, filter[c], output[c]);
      }
    }
    clip(run.bounds, output, run.channels);
  }
}

}  // namespace

constinit const FloatDepthwiseKernels scalar::float_depthwise = {.convolve = convolve,
                                                                 .convolve_windows = convolve_windows};

}  // namespace dmlcpu
