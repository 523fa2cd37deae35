#include <algorithm>
#include <cmath>

#include "check.h"

namespace dmlcpu::test {
namespace {

std::int32_t reference_cast(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int32_t>(std::clamp(std::trunc(double{value}), -0x1p31, 0x1p31 - 1));
}
std::int32_t reference_cast(std::uint8_t value) { return value; }
std::int32_t reference_cast(std::int8_t value) { return value; }

void draw(Check& check, float& value) {
  value = check.one_in(2) ? check.number() : static_cast<float>(static_cast<std::int32_t>(check.word()));
}
void draw(Check& check, std::uint8_t& value) { value = check.code(); }
void draw(Check& check, std::int8_t& value) { value = static_cast<std::int8_t>(check.code()); }

template <class Input>
void check_kernel(Check& check, const char* name, CastFunction kernel) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      std::vector<Input> input(count);
      std::vector<std::int32_t> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        draw(check, input[i]);
        expected[i] = reference_cast(input[i]);
      }
      const GuardedBuffer<Input> guarded_input(input, edge);
      const GuardedBuffer<std::int32_t> output(count, edge);
      describe_case("cast %s, count %zu, edge %d", name, count, static_cast<int>(edge));
      kernel(guarded_input.data(), count, output.data());
      check.equal(output, expected);
    }
  }
}

}  // namespace

void check_cast(Check& check) {
  check_kernel<std::uint8_t>(check, "uint8", check.table.cast->uint8);
  check_kernel<std::int8_t>(check, "int8", check.table.cast->int8);
  check_kernel<float>(check, "float32", check.table.cast->float32);
}

}  // namespace dmlcpu::test
