#include <cmath>
#include <limits>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

void convert(float value, float& output) { output = value; }
void convert(float value, std::uint16_t& output) { output = reference_narrow(value); }

template <class Output, class Input>
void check_run(Check& check, DequantizeFunction kernel, std::size_t count, Edge edge, bool per_element) {
  const std::size_t parameters = per_element ? count : 1;
  std::vector<float> scale(parameters), zero_point(parameters);
  for (float& value : scale) value = check.scale();
  for (float& value : zero_point) value = static_cast<float>(static_cast<Input>(check.word()));
  std::vector<Input> input(count);
  std::vector<Output> expected = canaries<Output>(count);
  for (std::size_t i = 0; i < count; ++i) {
    input[i] = static_cast<Input>(check.word());
    const std::size_t parameter = per_element ? i : 0;
    convert((static_cast<float>(input[i]) - zero_point[parameter]) * scale[parameter], expected[i]);
  }
  const GuardedBuffer<Input> guarded_input(input, edge);
  const GuardedBuffer<float> guarded_scale(scale, edge), guarded_zero_point(zero_point, edge);
  const GuardedBuffer<Output> output(count, edge);
  kernel({.input = guarded_input.data(),
          .output = output.data(),
          .count = count,
          .scale = guarded_scale.data(),
          .zero_point = guarded_zero_point.data(),
          .per_element = per_element});
  check.equal(output, expected);
}

template <class Output, class Input>
void check_kernel(Check& check, const char* name, DequantizeFunction kernel) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const bool per_element : {false, true}) {
        describe_case("dequantize %s to %zu bytes, count %zu, edge %d, per_element %d", name, sizeof(Output), count,
                      static_cast<int>(edge), per_element);
        for (int repeat = 0; repeat < 2; ++repeat) {
          check_run<Output, Input>(check, kernel, count, edge, per_element);
        }
      }
    }
  }
}

template <class Output>
void check_types(Check& check, const DequantizeToFloat& kernels) {
  check_kernel<Output, std::uint8_t>(check, "uint8", kernels.uint8);
  check_kernel<Output, std::int8_t>(check, "int8", kernels.int8);
  check_kernel<Output, std::uint16_t>(check, "uint16", kernels.uint16);
  check_kernel<Output, std::int16_t>(check, "int16", kernels.int16);
  check_kernel<Output, std::uint32_t>(check, "uint32", kernels.uint32);
  check_kernel<Output, std::int32_t>(check, "int32", kernels.int32);
}

// The rounding to FLOAT16: 1 times a scale for each element shows the FLOAT16 of the scale. The scales are every
// FLOAT16 number, the middle between it and its neighbour, and the floats beside these.
void check_narrowing(Check& check) {
  std::vector<float> scale;
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const float value = reference_widen(static_cast<std::uint16_t>(half));
    const float neighbour = reference_widen(static_cast<std::uint16_t>(half ^ 1));
    const float middle = value + (neighbour - value) / 2;
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float centre : {value, middle}) {
      scale.insert(scale.end(), {centre, std::nextafter(centre, infinity), std::nextafter(centre, -infinity)});
    }
  }
  for (int repeat = 0; repeat < 100000; ++repeat) scale.push_back(check.number());
  const std::vector<std::uint8_t> ones(scale.size(), 1);
  const std::vector<float> zero_point(scale.size(), 0.0f);
  std::vector<std::uint16_t> expected(scale.size());
  for (std::size_t i = 0; i < scale.size(); ++i) expected[i] = reference_narrow(scale[i]);
  describe_case("dequantize: narrowing to FLOAT16");
  const GuardedBuffer<std::uint16_t> output(scale.size(), Edge::end);
  check.table.dequantize->to_float16.uint8({.input = ones.data(),
                                            .output = output.data(),
                                            .count = scale.size(),
                                            .scale = scale.data(),
                                            .zero_point = zero_point.data(),
                                            .per_element = true});
  check.equal(output, expected);
}

}  // namespace

void check_dequantize(Check& check) {
  check_types<float>(check, check.table.dequantize->to_float32);
  check_types<std::uint16_t>(check, check.table.dequantize->to_float16);
  check_narrowing(check);
}

}  // namespace dmlcpu::test
