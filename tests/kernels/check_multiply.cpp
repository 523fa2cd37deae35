#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::uint8_t reference_product(std::uint8_t a, std::uint8_t b, const MultiplyRun& run) {
  const MultiplyOperand &a_is = run.a_parameters, &b_is = run.b_parameters, &output_is = run.output_parameters;
  const float a_value = (static_cast<float>(a ^ a_is.flip) - a_is.zero_point) * a_is.scale;
  const float b_value = (static_cast<float>(b ^ b_is.flip) - b_is.zero_point) * b_is.scale;
  return reference_code(a_value * b_value / output_is.scale, output_is.zero_point, output_is.flip);
}

MultiplyRun draw_parameters(Check& check) {
  const auto operand = [&check] { return MultiplyOperand{check.scale(), check.zero_point(), check.flip()}; };
  MultiplyRun run = {};
  run.a_parameters = operand();
  run.b_parameters = operand();
  run.output_parameters = operand();
  // Related scales make ties.
  if (check.one_in(3)) run.b_parameters.scale = 0.5f;
  if (check.one_in(3)) run.output_parameters.scale = 32.0f * run.a_parameters.scale;
  return run;
}

enum class Output { elsewhere, in_a, in_b };

void check_run(Check& check, std::size_t count, Edge edge, Output where) {
  MultiplyRun run = draw_parameters(check);
  const GuardedBuffer<std::uint8_t> a(count, edge), b(count, edge), elsewhere(count, edge);
  std::vector<std::uint8_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    a.data()[i] = check.code();
    b.data()[i] = check.code();
    expected[i] = reference_product(a.data()[i], b.data()[i], run);
  }
  const GuardedBuffer<std::uint8_t>& output = where == Output::elsewhere ? elsewhere : (where == Output::in_a ? a : b);
  run.a = a.data();
  run.b = b.data();
  run.output = output.data();
  run.count = count;
  check.table.multiply->run(run);
  check.equal(output, expected);
}

// Every pair of codes.
void check_all_pairs(Check& check) {
  constexpr std::size_t kPairs = 65536;
  std::vector<std::uint8_t> a(kPairs), b(kPairs), expected(kPairs);
  MultiplyRun run = draw_parameters(check);
  for (std::size_t i = 0; i < kPairs; ++i) {
    a[i] = static_cast<std::uint8_t>(i & 255);
    b[i] = static_cast<std::uint8_t>(i >> 8);
    expected[i] = reference_product(a[i], b[i], run);
  }
  const GuardedBuffer<std::uint8_t> output(kPairs, Edge::end);
  run.a = a.data();
  run.b = b.data();
  run.output = output.data();
  run.count = kPairs;
  describe_case("multiply: every pair of codes, scales %a, %a to %a", static_cast<double>(run.a_parameters.scale),
                static_cast<double>(run.b_parameters.scale), static_cast<double>(run.output_parameters.scale));
  check.table.multiply->run(run);
  check.equal(output, expected);
}

}  // namespace

void check_multiply(Check& check) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const Output where : {Output::elsewhere, Output::in_a, Output::in_b}) {
        describe_case("multiply, count %zu, edge %d, output %d", count, static_cast<int>(edge),
                      static_cast<int>(where));
        for (int repeat = 0; repeat < 4; ++repeat) check_run(check, count, edge, where);
      }
    }
  }
  for (int repeat = 0; repeat < 32; ++repeat) check_all_pairs(check);
}

}  // namespace dmlcpu::test
