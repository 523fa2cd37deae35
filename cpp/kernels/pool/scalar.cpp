// The normative arithmetic of pool.h in plain C++. Sums of a few channels are taken side by side, for their taps are
// neighbours in memory.
#include "kernels/pool/pool.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

constexpr std::size_t kChannels = 16;

inline float value(std::uint8_t code, const PoolParameters& parameters, std::size_t channel,
                   std::uint8_t flip) noexcept {
  return (static_cast<float>(code ^ flip) - parameters.input_zero_point[channel]) * parameters.input_scale[channel];
}

void dequantize(const PoolValues& operands) noexcept {
  const PoolValues run = operands;  // a copy: bytes of values could alias the original
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* codes = run.codes + pixel * run.pixel_step;
    float* values = run.values + pixel * run.value_pixel_step;
    for (std::size_t c = 0; c < run.channels; ++c) values[c] = value(codes[c], run.parameters, c, run.flip);
  }
}

inline void add_tap(const std::uint8_t* codes, const PoolRun<std::uint8_t>& run, std::size_t channel, std::size_t count,
                    float* sums) noexcept {
  for (std::size_t c = 0; c < count; ++c) sums[c] += value(codes[c], run.parameters, channel + c, run.flip);
}

inline void add_tap(const float* values, const PoolRun<float>&, std::size_t, std::size_t count, float* sums) noexcept {
  for (std::size_t c = 0; c < count; ++c) sums[c] += values[c];
}

template <class Element>
void average_channels(const PoolRun<Element>& run, const Element* input, std::size_t channel, std::size_t count,
                      std::uint8_t* output) noexcept {
  float sums[kChannels] = {};
  for (std::size_t i = 0; i < run.taps[0]; ++i) {
    for (std::size_t j = 0; j < run.taps[1]; ++j) {
      const Element* tap = input + i * run.tap_steps[0] + j * run.tap_steps[1];
      for (std::size_t k = 0; k < run.taps[2]; ++k) add_tap(tap + k * run.tap_steps[2], run, channel, count, sums);
    }
  }
  for (std::size_t c = 0; c < count; ++c) {
    const float quotient = (sums[c] / run.count) / run.parameters.output_scale[channel + c];
    output[c] = to_code(quotient, run.parameters.output_zero_point[channel + c], run.flip);
  }
}

template <class Element>
void average(const PoolRun<Element>& operands) noexcept {
  const PoolRun<Element> run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    for (std::size_t channel = 0; channel < run.channels; channel += kChannels) {
      const std::size_t left = run.channels - channel;
      average_channels(run, run.input + pixel * run.pixel_step + channel, channel, left < kChannels ? left : kChannels,
                       run.output + pixel * run.output_pixel_step + channel);
    }
  }
}

void average_planes(const PoolPlanes& operands) noexcept {
  const PoolPlanes run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t channel = 0; channel < run.channels; ++channel) {
    const std::uint8_t* plane = run.input + channel * run.channel_step;
    float sum = 0.0f;
    for (std::size_t tap = 0; tap < run.taps; ++tap) sum += value(plane[tap], run.parameters, channel, run.flip);
    const float quotient = (sum / run.count) / run.parameters.output_scale[channel];
    run.output[channel] = to_code(quotient, run.parameters.output_zero_point[channel], run.flip);
  }
}

}  // namespace

constinit const PoolKernels scalar::pool = {.dequantize = dequantize,
                                            .average_codes = average<std::uint8_t>,
                                            .average_values = average<float>,
                                            .average_planes = average_planes,
                                            .least_plane = 32};

}  // namespace dmlcpu
