// Interpolation along an axis (FLOAT_INTERPOLATION): each output is the weighted sum of some neighbours, lane by lane.
//
//   output[i * output_step + lane] = the last of the sums
//             weights[0] * input[first * input_step + lane]
//             fma(weights[t], input[(first + t) * input_step + lane], the sum before)    t = 1 .. count - 1
//             with first, count and weights of places[i], for i below outputs and lane below lanes
//
// float32, each product, then each step rounded once; the order of neighbours is part of the result.
//
// Contract: count is 1 at least. Reads and writes what the formulas name, nothing else; output overlaps no operand; no
// alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

// The neighbours that one output is made of.
struct InterpolatedPlace {
  std::size_t first;  // position of the input
  std::size_t count;
  const float* weights;
};

struct InterpolateRun {
  const float* input;
  std::size_t input_step;  // elements from position to position
  const InterpolatedPlace* places;
  std::size_t outputs;
  std::size_t lanes;
  float* output;
  std::size_t output_step;  // elements from output to output
};

struct InterpolateKernels {
  void (*interpolate)(const InterpolateRun& run) noexcept;
};

namespace scalar {
extern const InterpolateKernels interpolate;
}
namespace avx2 {
extern const InterpolateKernels interpolate;
}
namespace avx512_vnni {
extern const InterpolateKernels interpolate;
}

}  // namespace dmlcpu
