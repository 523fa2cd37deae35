// The normative arithmetic of grouped.h. Sums are taken in uint32, which wraps.
#include "kernels/grouped/grouped.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

constexpr std::size_t kLanes = 4;  // a group of 16 channels

// The four codes of the filter for one lane of one vector.
inline const std::int8_t* filter_of(const GroupedRun& run, std::size_t lane, std::size_t tap, std::size_t exchange,
                                    std::size_t t) noexcept {
  const std::size_t vector = ((lane / kLanes * run.taps + tap) * run.group_lanes + exchange) * kGroupedLaneChannels + t;
  return reinterpret_cast<const std::int8_t*>(run.filter) + (vector * kLanes + lane % kLanes) * 4;
}

void convolve(const GroupedRun& operands) noexcept {
  const GroupedRun run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* activations = run.activations + pixel * run.pixel_step;
    for (std::size_t channel = 0; channel < run.channels; ++channel) {
      const std::size_t lane = channel / kGroupedLaneChannels, t = channel % kGroupedLaneChannels;
      const std::size_t parameter = (lane / kLanes * kGroupedLaneChannels + t) * kLanes + lane % kLanes;
      std::uint32_t sum = static_cast<std::uint32_t>(run.offset[parameter]), window = 0;
      for (std::size_t tap = 0; tap < run.taps; ++tap) {
        for (std::size_t exchange = 0; exchange < run.group_lanes; ++exchange) {
          const std::uint8_t* codes = activations + run.offsets[tap] + (lane ^ exchange) * kGroupedLaneChannels;
          const std::int8_t* filter = filter_of(run, lane, tap, exchange, t);
          for (std::size_t i = 0; i < kGroupedLaneChannels; ++i) {
            sum += static_cast<std::uint32_t>(codes[i] * filter[i]);
            window += codes[i];
          }
        }
      }
      if (run.filter_zero_point != nullptr) {
        sum -= static_cast<std::uint32_t>(run.filter_zero_point[parameter]) * window;
      }
      const std::size_t element = pixel * run.output_pixel_stride + channel;
      if (run.sums != nullptr) {
        run.sums[element] = static_cast<std::int32_t>(sum);
      } else {
        const float scaled = static_cast<float>(static_cast<std::int32_t>(sum)) * run.multiplier[parameter];
        run.output[element] = to_code(scaled, run.output_zero_point, run.flip);
      }
    }
  }
}

}  // namespace

constinit const GroupedKernels scalar::grouped = {.lanes = kLanes,
                                                  .most_group_lanes = 4,
                                                  .pixels_of_filter = 1,
                                                  .widened = false,
                                                  .groups_of_block = 3.0,
                                                  .groups_of_block_by_four = 3.0,
                                                  .convolve = convolve};

}  // namespace dmlcpu
