// The normative arithmetic of interpolate.h in plain C++.
#include "kernels/interpolate/interpolate.h"

namespace dmlcpu {
namespace {

void sum_up(const InterpolateRun& run) noexcept {
  for (std::size_t i = 0; i < run.outputs; ++i) {
    const InterpolatedPlace place = run.places[i];
    const float* input = run.input + place.first * run.input_step;
    float* output = run.output + i * run.output_step;
    for (std::size_t lane = 0; lane < run.lanes; ++lane) {
      float sum = place.weights[0] * input[lane];
      for (std::size_t t = 1; t < place.count; ++t) {
        sum = __builtin_fmaf(place.weights[t], input[t * run.input_step + lane], sum);
      }
      output[lane] = sum;
    }
  }
}

}  // namespace

constinit const InterpolateKernels scalar::interpolate = {.interpolate = sum_up};

}  // namespace dmlcpu
