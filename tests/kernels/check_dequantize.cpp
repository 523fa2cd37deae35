#include <cmath>
#include <limits>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

void convert(float value, float& output) { output = value; }
void convert(float value, std::uint16_t& output) { output = reference_narrow(value); }

// Several rows have gaps between them, or coincide on the input's side.
template <class Output, class Input>
void check_run(Check& check, DequantizeFunction kernel, std::size_t count, std::size_t rows, Edge edge,
               bool per_element) {
  const std::size_t input_stride = check.one_in(4) ? 0 : count + check.below(3), output_stride = count + check.below(3);
  const std::size_t parameters = per_element ? count : rows;
  std::vector<float> scale(parameters), zero_point(parameters);
  for (float& value : scale) value = check.scale();
  for (float& value : zero_point) value = static_cast<float>(static_cast<Input>(check.word()));
  std::vector<Input> input((rows - 1) * input_stride + count);
  for (Input& value : input) value = static_cast<Input>(check.word());
  std::vector<Output> expected = canaries<Output>((rows - 1) * output_stride + count);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t parameter = per_element ? i : row;
      const float value = static_cast<float>(input[row * input_stride + i]);
      convert((value - zero_point[parameter]) * scale[parameter], expected[row * output_stride + i]);
    }
  }
  const GuardedBuffer<Input> guarded_input(input, edge);
  const GuardedBuffer<float> guarded_scale(scale, edge), guarded_zero_point(zero_point, edge);
  const GuardedBuffer<Output> output(expected.size(), edge);
  kernel({.input = guarded_input.data(),
          .output = output.data(),
          .count = count,
          .scale = guarded_scale.data(),
          .zero_point = guarded_zero_point.data(),
          .per_element = per_element,
          .rows = rows,
          .input_row_stride = input_stride,
          .output_row_stride = output_stride});
  check.equal(output, expected);
}

template <class Output, class Input>
void check_kernel(Check& check, const char* name, DequantizeFunction kernel) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const bool per_element : {false, true}) {
        for (const std::size_t rows : Sizes{1, 1, 2, 3, 7}) {
          if (rows > 1 && count == 0) continue;
          describe_case("dequantize %s to %zu bytes, %zu rows of %zu, edge %d, per_element %d", name, sizeof(Output),
                        rows, count, static_cast<int>(edge), per_element);
          check_run<Output, Input>(check, kernel, count, rows, edge, per_element);
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
