#include <algorithm>
#include <cmath>

#include "check.h"
#include "kernels/dispatch.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

enum class Rescale { divide, multiply };

float to_float(float value) { return value; }
float to_float(std::uint16_t half) { return reference_widen(half); }
float to_float(std::int32_t value) { return static_cast<float>(value); }

void draw(Check& check, float near, float& value) { value = check.one_in(2) ? check.near_tie(near) : check.number(); }
void draw(Check& check, float near, std::uint16_t& value) {
  value = check.one_in(2) ? static_cast<std::uint16_t>(check.word()) : reference_narrow(check.near_tie(near));
}
void draw(Check& check, float, std::int32_t& value) {
  value = check.one_in(2) ? static_cast<std::int32_t>(check.word()) : static_cast<std::int32_t>(check.below(600)) - 300;
}

template <class Input>
void check_run(Check& check, QuantizeFunction kernel, Rescale rescale, std::size_t count, Edge edge, bool per_element) {
  const std::size_t parameters = per_element ? count : 1;
  std::vector<float> scale(parameters), zero_point(parameters);
  for (float& value : scale) value = check.scale();
  for (float& value : zero_point) value = check.zero_point();
  const std::uint8_t flip = check.flip();
  std::vector<Input> input(count);
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float scale_i = scale[per_element ? i : 0];
    draw(check, rescale == Rescale::divide ? scale_i : 1.0f / scale_i, input[i]);
    const float value = to_float(input[i]);
    expected[i] = reference_code(rescale == Rescale::divide ? value / scale_i : value * scale_i,
                                 zero_point[per_element ? i : 0], flip);
  }
  const GuardedBuffer<Input> guarded_input(input, edge);
  const GuardedBuffer<float> guarded_scale(scale, edge), guarded_zero_point(zero_point, edge);
  const GuardedBuffer<std::uint8_t> output(count, edge);
  kernel({.input = guarded_input.data(),
          .output = output.data(),
          .count = count,
          .scale = guarded_scale.data(),
          .zero_point = guarded_zero_point.data(),
          .per_element = per_element,
          .flip = flip});
  check.equal(output, expected);
}

template <class Input>
void check_kernel(Check& check, const char* name, QuantizeFunction kernel, Rescale rescale) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const bool per_element : {false, true}) {
        describe_case("quantize %s, count %zu, edge %d, per_element %d", name, count, static_cast<int>(edge),
                      per_element);
        for (int repeat = 0; repeat < 4; ++repeat) check_run<Input>(check, kernel, rescale, count, edge, per_element);
      }
    }
    for (const std::size_t rows : Sizes{2, 3, 7}) {
      for (const bool per_element : {false, true}) {
        if (count == 0) continue;
        describe_case("quantize %s, %zu rows of %zu, per_element %d", name, rows, count, per_element);
        check_rows<Input>(check, kernel, rescale, count, rows, per_element);
      }
    }
  }
  for (const std::size_t rows : Sizes{511, 512, 513, 1030}) {
    for (const std::size_t count : Sizes{1, 5, 16, 32, 49, 80, 600}) {
      describe_case("quantize %s, %zu rows of %zu", name, rows, count);
      for (int repeat = 0; repeat < 8; ++repeat) {  // joined rows among them
        check_rows<Input>(check, kernel, rescale, count, rows, false);
      }
    }
  }
  for (const std::size_t count : Sizes{128, 192, 448, 512, 576}) {
    describe_case("quantize %s, 3 rows of %zu, per_element", name, count);
    for (const std::size_t period : Sizes{count, std::size_t{48}, std::size_t{24}}) {
      for (int repeat = 0; repeat < 4; ++repeat) check_rows<Input>(check, kernel, rescale, count, 3, true, period);
    }
  }
}

// Rows with gaps between them, or input rows that coincide, with a scale for each row or for each column, the same ones
// again after a period of these.
template <class Input>
void check_rows(Check& check, QuantizeFunction kernel, Rescale rescale, std::size_t count, std::size_t rows,
                bool per_element, std::size_t period = ~std::size_t{0}) {
  const std::size_t input_stride = check.one_in(4) ? 0 : count + check.below(3), output_stride = count + check.below(3);
  const std::size_t parameters = per_element ? count : rows;
  std::vector<float> scale(parameters), zero_point(parameters);
  const bool ordinary = check.one_in(2);  // else some columns divide and some do not
  for (float& value : scale) value = ordinary ? 0.01f * static_cast<float>(1 + check.below(999)) : check.scale();
  for (float& value : zero_point) value = check.zero_point();
  for (std::size_t i = period; i < parameters; ++i) {
    scale[i] = scale[i - period];
    zero_point[i] = zero_point[i - period];
  }
  std::vector<Input> input((rows - 1) * input_stride + count);
  for (Input& value : input) draw(check, scale[check.below(parameters)], value);
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>((rows - 1) * output_stride + count);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t parameter = per_element ? i : row;
      const float value = to_float(input[row * input_stride + i]);
      const float scaled = rescale == Rescale::divide ? value / scale[parameter] : value * scale[parameter];
      expected[row * output_stride + i] = reference_code(scaled, zero_point[parameter], 0x80);
    }
  }
  const GuardedBuffer<Input> guarded_input(input, Edge::end);
  const GuardedBuffer<float> guarded_scale(scale, Edge::end), guarded_zero_point(zero_point, Edge::end);
  const GuardedBuffer<std::uint8_t> output(expected.size(), Edge::end);
  kernel({.input = guarded_input.data(),
          .output = output.data(),
          .count = count,
          .scale = guarded_scale.data(),
          .zero_point = guarded_zero_point.data(),
          .per_element = per_element,
          .flip = 0x80,
          .rows = rows,
          .input_row_stride = input_stride,
          .output_row_stride = output_stride});
  check.equal(output, expected);
}

// Every FLOAT16 number.
void check_all_halves(Check& check, const char* name, QuantizeFunction kernel, Rescale rescale) {
  std::vector<std::uint16_t> input(65536);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint8_t> expected(input.size());
  for (int repeat = 0; repeat < 16; ++repeat) {
    const float scale = check.scale(), zero_point = check.zero_point();
    for (std::size_t i = 0; i < input.size(); ++i) {
      const float value = reference_widen(input[i]);
      expected[i] = reference_code(rescale == Rescale::divide ? value / scale : value * scale, zero_point, 0);
    }
    describe_case("quantize %s, every FLOAT16, scale %a", name, static_cast<double>(scale));
    const GuardedBuffer<std::uint8_t> output(input.size(), Edge::end);
    kernel({.input = input.data(),
            .output = output.data(),
            .count = input.size(),
            .scale = &scale,
            .zero_point = &zero_point,
            .per_element = false,
            .flip = 0});
    check.equal(output, expected);
  }
}

// The five floats around scale * (n + 1/2) for every n, by many or all significands of the scale, against the scalar
// kernel: what a quotient that is not a division has to get right (codes/avx512_vnni.inl.h). With one scale, and with
// one for each element, which has a reciprocal of its own making.
void check_quotients(Check& check) {
  constexpr std::uint32_t kHalves = 256, kNeighbours = 5;
  const QuantizeFunction kernel = check.table.quantize->divide_float32;
  const QuantizeFunction reference = kernel_table(Isa::scalar).quantize->divide_float32;
  std::vector<float> input(kHalves * kNeighbours);
  std::vector<std::uint8_t> output(input.size()), expected(input.size());
  std::vector<float> scales(input.size()), zero_points(input.size());
  for (std::uint32_t significand = 0; significand < (1U << 23); significand += check.exhaustive ? 1 : 8191) {
    const int exponent = check.exhaustive ? 0 : static_cast<int>(significand % 240) - 126;
    const float sign = (significand & 1) != 0 ? -1.0f : 1.0f;
    const float scale = std::ldexp(static_cast<float>((1U << 23) + significand), exponent - 23);
    const float zero_point = sign > 0 ? 0.0f : 255.0f;
    for (std::uint32_t n = 0; n < kHalves; ++n) {
      const float tie = (static_cast<float>(n) + 0.5f) * scale * sign;
      std::uint32_t bits;
      std::memcpy(&bits, &tie, sizeof(bits));
      for (std::uint32_t neighbour = 0; neighbour < kNeighbours; ++neighbour) {
        const std::uint32_t neighbour_bits = bits + neighbour - kNeighbours / 2;
        std::memcpy(&input[kNeighbours * n + neighbour], &neighbour_bits, sizeof(bits));
      }
    }
    QuantizeRun run = {.input = input.data(),
                       .output = output.data(),
                       .count = input.size(),
                       .scale = &scale,
                       .zero_point = &zero_point,
                       .per_element = false,
                       .flip = 0};
    kernel(run);
    run.output = expected.data();
    reference(run);
    describe_case("quantize divide_float32, ties of scale %a", static_cast<double>(scale));
    check.expect(output == expected);
    std::fill(scales.begin(), scales.end(), scale);
    std::fill(zero_points.begin(), zero_points.end(), zero_point);
    run.output = output.data();
    run.scale = scales.data();
    run.zero_point = zero_points.data();
    run.per_element = true;
    kernel(run);
    describe_case("quantize divide_float32, ties of scales %a", static_cast<double>(scale));
    check.expect(output == expected);
  }
}

}  // namespace

void check_quantize(Check& check) {
  const QuantizeKernels& kernels = *check.table.quantize;
  check_kernel<float>(check, "divide_float32", kernels.divide_float32, Rescale::divide);
  check_kernel<std::uint16_t>(check, "divide_float16", kernels.divide_float16, Rescale::divide);
  check_kernel<std::int32_t>(check, "divide_int32", kernels.divide_int32, Rescale::divide);
  check_kernel<float>(check, "multiply_float32", kernels.multiply_float32, Rescale::multiply);
  check_kernel<std::uint16_t>(check, "multiply_float16", kernels.multiply_float16, Rescale::multiply);
  check_all_halves(check, "divide_float16", kernels.divide_float16, Rescale::divide);
  check_all_halves(check, "multiply_float16", kernels.multiply_float16, Rescale::multiply);
  check_quotients(check);
}

}  // namespace dmlcpu::test
