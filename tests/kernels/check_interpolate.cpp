#include <cmath>

#include "check.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t outputs, lanes, taps;
};

void check_sums(Check& check, const Shape& shape, Edge edge) {
  const std::size_t positions = shape.taps + check.below(5);
  const std::size_t input_step = shape.lanes + check.below(3), output_step = shape.lanes + check.below(3);
  std::vector<float> input((positions - 1) * input_step + shape.lanes), weights(shape.outputs * shape.taps);
  for (float& value : input) value = check.number();
  for (float& weight : weights) weight = check.number();
  const GuardedBuffer<float> guarded_input(input, edge), guarded_weights(weights, edge);
  std::vector<InterpolatedPlace> places(shape.outputs);
  for (std::size_t i = 0; i < shape.outputs; ++i) {
    places[i].count = 1 + check.below(shape.taps);
    places[i].first = check.below(positions - places[i].count + 1);
    places[i].weights = guarded_weights.data() + i * shape.taps;
  }
  const GuardedBuffer<float> output(shape.outputs == 0 ? 0 : (shape.outputs - 1) * output_step + shape.lanes, edge);
  // What is between outputs stays as it is.
  std::vector<float> expected(output.data(), output.data() + output.size());
  for (std::size_t i = 0; i < shape.outputs; ++i) {
    for (std::size_t lane = 0; lane < shape.lanes; ++lane) {
      const float* const first = input.data() + places[i].first * input_step + lane;
      float sum = places[i].weights[0] * *first;
      for (std::size_t t = 1; t < places[i].count; ++t)
        sum = std::fma(places[i].weights[t], first[t * input_step], sum);
      expected[i * output_step + lane] = sum;
    }
  }
  describe_case("interpolate outputs %zu, lanes %zu, taps %zu, edge %d", shape.outputs, shape.lanes, shape.taps,
                static_cast<int>(edge));
  check.table.interpolate->interpolate({.input = guarded_input.data(),
                                        .input_step = input_step,
                                        .places = places.data(),
                                        .outputs = shape.outputs,
                                        .lanes = shape.lanes,
                                        .output = output.data(),
                                        .output_step = output_step});
  check.equal_but_for_nans(output, expected);
}

}  // namespace

void check_interpolate(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t lanes : run_lengths()) check_sums(check, {3, lanes, 4}, edge);
    for (const std::size_t taps : Sizes{1, 2, 3, 9}) {
      for (const std::size_t outputs : Sizes{0, 1, 2, 7}) check_sums(check, {outputs, 16, taps}, edge);
    }
  }
}

}  // namespace dmlcpu::test
