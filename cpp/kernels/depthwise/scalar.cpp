// The normative sums of depthwise.h.
#include "kernels/depthwise/depthwise.h"

namespace dmlcpu {
namespace {

void accumulate(const DepthwiseRun& run) noexcept {
  const std::size_t lanes = (run.lanes + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* activations = run.activations + pixel * run.pixel_step;
    std::int32_t* sums = run.sums + pixel * run.sums_row_stride;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::uint32_t sum = 0;
      for (std::size_t group = 0; group < run.groups; ++group) {
        const std::uint8_t* codes = activations + run.offsets[group] + lane * 4;
        const std::int8_t* filter = run.filter + (group * lanes + lane) * 4;
        for (int tap = 0; tap < 4; ++tap) sum += static_cast<std::uint32_t>(codes[tap] * filter[tap]);
      }
      sums[lane] = static_cast<std::int32_t>(sum);
    }
  }
}

}  // namespace

constinit const DepthwiseKernels scalar::depthwise = {.accumulate = accumulate};

}  // namespace dmlcpu
