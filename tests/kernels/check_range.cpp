#include <cmath>
#include <limits>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

float to_float(float value) { return value; }
float to_float(std::uint16_t half) { return reference_widen(half); }

void draw(Check& check, float& value) { value = check.number(); }
void draw(Check& check, std::uint16_t& value) { value = reference_narrow(check.number()); }

enum class Data { anything, finite, only_nan };

template <class Input>
void check_run(Check& check, RangeFunction kernel, std::size_t count, Edge edge, Data data) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Range expected = check.one_of<Range>({{0.0f, 0.0f}, {-2.5f, 0.25f}, {kInfinity, -kInfinity}});
  Range range = expected;
  std::vector<Input> input(count);
  for (Input& value : input) {
    do {
      draw(check, value);
    } while ((data == Data::finite && !std::isfinite(to_float(value))) ||
             (data == Data::only_nan && !std::isnan(to_float(value))));
    const float number = to_float(value);
    if (!std::isnan(number)) expected = {std::fmin(expected.lowest, number), std::fmax(expected.highest, number)};
  }
  const GuardedBuffer<Input> guarded_input(input, edge);
  kernel(guarded_input.data(), count, range);
  check.expect(range.lowest == expected.lowest && range.highest == expected.highest);
}

template <class Input>
void check_kernel(Check& check, const char* name, RangeFunction kernel) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const Data data : {Data::anything, Data::finite, Data::only_nan}) {
        describe_case("range %s, count %zu, edge %d, data %d", name, count, static_cast<int>(edge),
                      static_cast<int>(data));
        check_run<Input>(check, kernel, count, edge, data);
      }
    }
  }
}

// The extremes at each position of a run in turn, everything else between them.
void check_positions(Check& check) {
  std::vector<float> input(161, 0.5f);
  for (std::size_t i = 0; i + 1 < input.size(); ++i) {
    input[i] = -2.0f;
    input[i + 1] = 3.0f;
    Range range = {0.0f, 0.0f};
    describe_case("range float32, extremes at %zu", i);
    check.table.range->float32(input.data(), input.size(), range);
    check.expect(range.lowest == -2.0f && range.highest == 3.0f);
    input[i] = input[i + 1] = 0.5f;
  }
}

}  // namespace

void check_range(Check& check) {
  check_kernel<float>(check, "float32", check.table.range->float32);
  check_kernel<std::uint16_t>(check, "float16", check.table.range->float16);
  check_positions(check);
}

}  // namespace dmlcpu::test
