#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "check.h"

namespace dmlcpu::test {
namespace {

void reference_cast(float value, std::int32_t& result) {
  result =
      std::isnan(value) ? 0 : static_cast<std::int32_t>(std::clamp(std::trunc(double{value}), -0x1p31, 0x1p31 - 1));
}
void reference_cast(std::uint8_t value, std::int32_t& result) { result = value; }
void reference_cast(std::int8_t value, std::int32_t& result) { result = value; }

// FLOAT16 as sign, exponent and significand, in doubles, which hold all of its numbers and their halves.
void reference_cast(std::uint16_t half, float& result) {
  const int exponent = half >> 10 & 31, significand = half & 0x3ff;
  if (exponent == 31 && significand != 0) {
    result = std::bit_cast<float>((half & 0x8000U) << 16 | 0x7fc00000U | static_cast<std::uint32_t>(significand) << 13);
    return;
  }
  const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                           : exponent == 0 ? std::ldexp(significand, -24)
                                           : std::ldexp(significand + 1024, exponent - 25);
  result = static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude);
}
void reference_cast(float value, std::uint16_t& result) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), sign = bits >> 16 & 0x8000;
  if (std::isnan(value)) {
    result = static_cast<std::uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    return;
  }
  const double magnitude = std::abs(double{value});
  const int exponent = magnitude < 0x1p-14 ? -14 : std::min(std::ilogb(magnitude), 16);
  const double unit = std::ldexp(1.0, exponent - 10), units = std::nearbyint(magnitude / unit);
  const double rounded = std::min(units * unit, 0x1p16);  // from 2^16 on it is infinite
  std::uint32_t half = 0x7c00;
  if (rounded < 0x1p16) {
    const int power = rounded < 0x1p-14 ? -15 : std::ilogb(rounded);
    half = power == -15 ? static_cast<std::uint32_t>(rounded * 0x1p24)
                        : static_cast<std::uint32_t>(power + 15) << 10 |
                              static_cast<std::uint32_t>(std::ldexp(rounded, 10 - power) - 1024);
  }
  result = static_cast<std::uint16_t>(sign | half);
}

void draw(Check& check, float& value) {
  value = check.one_in(2) ? check.number() : static_cast<float>(static_cast<std::int32_t>(check.word()));
}
void draw(Check& check, std::uint8_t& value) { value = check.code(); }
void draw(Check& check, std::int8_t& value) { value = static_cast<std::int8_t>(check.code()); }
void draw(Check& check, std::uint16_t& value) { value = static_cast<std::uint16_t>(check.word()); }

template <class Input, class Output>
void check_kernel(Check& check, const char* name, CastFunction kernel) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      std::vector<Input> input(count);
      std::vector<Output> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        draw(check, input[i]);
        reference_cast(input[i], expected[i]);
      }
      const GuardedBuffer<Input> guarded_input(input, edge);
      const GuardedBuffer<Output> output(count, edge);
      describe_case("cast %s, count %zu, edge %d", name, count, static_cast<int>(edge));
      kernel(guarded_input.data(), count, output.data());
      check.equal(output, expected);
    }
  }
}

// All FLOAT16, and all FLOAT32 that are one of them, half way between two, or next to these.
void check_every_float16(Check& check) {
  std::vector<std::uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> expected(halves.size()), floats;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    reference_cast(halves[i], expected[i]);
    for (const std::uint32_t step : {0U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      floats.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(expected[i]) + step));
    }
  }
  const GuardedBuffer<float> widened(halves.size(), kEdges[0]);
  describe_case("cast, every float16 to float32");
  check.table.cast->float16_to_float32(halves.data(), halves.size(), widened.data());
  check.equal(widened, expected);

  std::vector<std::uint16_t> expected_halves(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) reference_cast(floats[i], expected_halves[i]);
  const GuardedBuffer<std::uint16_t> narrowed(floats.size(), kEdges[0]);
  describe_case("cast, float32 around every float16");
  check.table.cast->float32_to_float16(floats.data(), floats.size(), narrowed.data());
  check.equal(narrowed, expected_halves);
}

}  // namespace

void check_cast(Check& check) {
  const CastKernels& kernels = *check.table.cast;
  check_kernel<std::uint8_t, std::int32_t>(check, "uint8 to int32", kernels.uint8_to_int32);
  check_kernel<std::int8_t, std::int32_t>(check, "int8 to int32", kernels.int8_to_int32);
  check_kernel<float, std::int32_t>(check, "float32 to int32", kernels.float32_to_int32);
  check_kernel<std::uint16_t, float>(check, "float16 to float32", kernels.float16_to_float32);
  check_kernel<float, std::uint16_t>(check, "float32 to float16", kernels.float32_to_float16);
  check_every_float16(check);
}

}  // namespace dmlcpu::test
