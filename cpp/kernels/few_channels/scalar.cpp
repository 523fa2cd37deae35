// The normative arithmetic of few_channels.h. Sums are taken in uint32, which wraps.
#include "kernels/few_channels/few_channels.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

// The sum over a window of its codes times those of a channel's filter.
std::uint32_t window_sum(const FewChannelsRun& run, std::size_t pixel, std::size_t channel) noexcept {
  const auto* filter = reinterpret_cast<const std::int8_t*>(run.filter) + channel * 4;
  std::uint32_t sum = 0;
  for (std::size_t row = 0; row < run.row_count; ++row) {
    for (std::size_t segment = 0; segment < run.segments; ++segment, filter += (run.channels + 1) * 4) {
      const std::uint8_t* codes = run.rows[row] + run.offsets[segment] + pixel * 4;
      for (std::size_t i = 0; i < 4; ++i) sum += static_cast<std::uint32_t>(codes[i] * filter[i]);
    }
  }
  return sum;
}

void convolve(const FewChannelsRun& operands) noexcept {
  const FewChannelsRun run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint32_t codes = run.filter_zero_point == nullptr ? 0 : window_sum(run, pixel, run.channels);
    for (std::size_t channel = 0; channel < run.channels; ++channel) {
      std::uint32_t sum = window_sum(run, pixel, channel) + static_cast<std::uint32_t>(run.offset[channel]);
      if (run.filter_zero_point != nullptr) {
        sum -= static_cast<std::uint32_t>(run.filter_zero_point[channel]) * codes;
      }
      const float scaled = static_cast<float>(static_cast<std::int32_t>(sum)) * run.multiplier[channel];
      run.output[channel * run.output_channel_stride + pixel] = to_code(scaled, run.output_zero_point, run.flip);
    }
  }
}

}  // namespace

constinit const FewChannelsKernels scalar::few_channels = {
    .most_channels = 8.5, .most_channels_of_many = 8.5, .widened = false, .convolve = convolve};

}  // namespace dmlcpu
