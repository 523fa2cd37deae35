// The other rows against the scalar one, whose values the Python tests compare with the reference; here it is memory
// that counts.
#include <algorithm>

#include "check.h"
#include "kernels/dispatch.h"

namespace dmlcpu::test {
namespace {

const FloatFunctionKernels& scalar_kernels() { return *kernel_table(Isa::scalar).float_functions; }

std::vector<float> draw(Check& check, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = check.number();
  return values;
}

void check_unary(Check& check, std::size_t function, std::size_t count, Edge edge, bool in_place) {
  const std::vector<float> x = draw(check, count);
  std::vector<float> expected(count);
  FloatUnaryRun run = {x.data(), expected.data(), count, check.number(), check.number()};
  scalar_kernels().unary[function](run);

  const GuardedBuffer<float> input(x, edge), output(count, edge);
  if (in_place) std::copy(x.begin(), x.end(), output.data());
  run.input = in_place ? output.data() : input.data();
  run.output = output.data();
  describe_case("unary function %zu, count %zu, edge %d, in place %d", function, count, static_cast<int>(edge),
                in_place);
  check.table.float_functions->unary[function](run);
  check.equal_but_for_nans(output, expected);
}

void check_binary(Check& check, std::size_t function, std::size_t count, Edge edge, bool a_repeats, bool b_repeats) {
  const std::vector<float> a = draw(check, a_repeats ? 1 : count), b = draw(check, b_repeats ? 1 : count);
  std::vector<float> expected(count);
  FloatBinaryRun run = {a.data(), b.data(), a_repeats, b_repeats, expected.data(), count};
  scalar_kernels().binary[function](run);

  const GuardedBuffer<float> guarded_a(a, edge), guarded_b(b, edge), output(count, edge);
  run.a = guarded_a.data();
  run.b = guarded_b.data();
  run.output = output.data();
  describe_case("binary function %zu, count %zu, edge %d, repeating %d %d", function, count, static_cast<int>(edge),
                a_repeats, b_repeats);
  check.table.float_functions->binary[function](run);
  check.equal_but_for_nans(output, expected);
}

}  // namespace

void check_float_functions(Check& check) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (std::size_t function = 0; function < kFloatUnaryCount; ++function) {
        check_unary(check, function, count, edge, false);
        check_unary(check, function, count, edge, true);
      }
      for (std::size_t function = 0; function < kFloatBinaryCount; ++function) {
        for (const bool a_repeats : {false, true}) {
          for (const bool b_repeats : {false, true}) check_binary(check, function, count, edge, a_repeats, b_repeats);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
