// The normative arithmetic of depthwise.h. Sums are taken in uint32, which wraps.
#include "kernels/depthwise/depthwise.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

void convolve(const DepthwiseRun& operands) noexcept {
  const DepthwiseRun run = operands;  // a copy: bytes of output could alias the original
  const std::size_t lanes = (run.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* activations = run.activations + pixel * run.pixel_step;
    for (std::size_t channel = 0; channel < run.channels; ++channel) {
      std::uint32_t sum = static_cast<std::uint32_t>(run.offset[channel]), window = 0;
      for (std::size_t group = 0; group < run.groups; ++group) {
        const std::uint8_t* codes = activations + run.offsets[group] + channel * 4;
        const std::int8_t* filter = run.filter + (group * lanes + channel) * 4;
        for (std::size_t tap = 0; tap < 4; ++tap) {
          sum += static_cast<std::uint32_t>(codes[tap] * filter[tap]);
          window += static_cast<std::uint32_t>(codes[tap] * run.taps[group * 4 + tap]);
        }
      }
      if (run.filter_zero_point != nullptr) sum -= static_cast<std::uint32_t>(run.filter_zero_point[channel]) * window;
      if (run.sums != nullptr) {
        run.sums[pixel * run.output_pixel_stride + channel] = static_cast<std::int32_t>(sum);
        continue;
      }
      const float scaled = static_cast<float>(static_cast<std::int32_t>(sum)) * run.multiplier[channel];
      run.output[pixel * run.output_pixel_stride + channel] = to_code(scaled, run.output_zero_point, run.flip);
    }
  }
}

}  // namespace

constinit const DepthwiseKernels scalar::depthwise = {.convolve = convolve};

}  // namespace dmlcpu
