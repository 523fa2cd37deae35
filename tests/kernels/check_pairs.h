// The check of the families that make one code of two: add and multiply.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "check.h"

namespace dmlcpu::test {

// Run is the family's: AddRun or MultiplyRun, whose members have the same names.
template <class Run>
struct PairFamily {
  const char* name;
  void (*kernel)(const Run& run) noexcept;
  // The formula of the family's header.
  std::uint8_t (*reference)(std::uint8_t a, std::uint8_t b, const Run& run);
  // Some scales that make ties.
  void (*relate_scales)(Check& check, Run& run);
};

// The code of an integer t as kernels/add/add.h has it.
inline std::uint8_t reference_integer_code(int t, float multiplier, float addend, std::uint8_t flip) {
  const float code = std::fma(8388608.0F + static_cast<float>(t), multiplier, addend) - 12582912.0F;
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(std::clamp(code, 0.0F, 255.0F)) ^ flip);
}

// The integers with an offset, a multiplier and an addend for a t that is within least..most without an offset: at both
// ends of its range and between; codes that end at ties, within 0..255 or at both ends of 16 bits, with zero points of
// both parities.
template <class Integers>
Integers draw_integer_code(Check& check, Integers integers, int least, int most) {
  const int span = most - least, most_offset = 0x7fffff - span;
  integers.offset =
      check.one_of<int>({0, most_offset, static_cast<int>(check.below(static_cast<std::size_t>(most_offset) + 1))}) -
      least;
  const double codes = check.one_of<double>({100.0, 500.0, 20000.0, 65000.0});
  const auto multiplier = std::clamp(static_cast<float>(codes / span), 0x1p-15F, 0.25F);
  integers.multiplier = check.one_in(3) ? std::exp2(std::floor(std::log2(multiplier))) : multiplier;
  const auto product = [&](int t) {
    return std::nearbyint((8388608.0 + t) * static_cast<double>(integers.multiplier));
  };
  const double lowest = product(integers.offset + least), highest = product(integers.offset + most);
  const double middle = std::floor((lowest + highest) / 2) - 128.0 - static_cast<double>(check.below(2));
  integers.addend =
      static_cast<float>(12582912.0 - check.one_of<double>({middle, lowest + 32640.0, highest - 32638.0}));
  return integers;
}

enum class PairOutput { elsewhere, in_a, in_b };

template <class Run>
Run draw_pair_parameters(Check& check, const PairFamily<Run>& family) {
  Run run = {};
  for (auto* operand : {&run.a_parameters, &run.b_parameters, &run.output_parameters}) {
    *operand = {check.scale(), check.zero_point(), check.flip()};
  }
  family.relate_scales(check, run);
  return run;
}

template <class Run>
void check_pair_run(Check& check, const PairFamily<Run>& family, std::size_t count, Edge edge, PairOutput where) {
  Run run = draw_pair_parameters(check, family);
  const GuardedBuffer<std::uint8_t> a(count, edge), b(count, edge), elsewhere(count, edge);
  std::vector<std::uint8_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    a.data()[i] = check.code();
    b.data()[i] = check.code();
    expected[i] = family.reference(a.data()[i], b.data()[i], run);
  }
  const GuardedBuffer<std::uint8_t>& output =
      where == PairOutput::elsewhere ? elsewhere : (where == PairOutput::in_a ? a : b);
  run.a = a.data();
  run.b = b.data();
  run.output = output.data();
  run.count = count;
  family.kernel(run);
  check.equal(output, expected);
}

// Every pair of codes.
template <class Run>
void check_all_pairs(Check& check, const PairFamily<Run>& family) {
  constexpr std::size_t kPairs = 65536;
  std::vector<std::uint8_t> a(kPairs), b(kPairs), expected(kPairs);
  Run run = draw_pair_parameters(check, family);
  for (std::size_t i = 0; i < kPairs; ++i) {
    a[i] = static_cast<std::uint8_t>(i & 255);
    b[i] = static_cast<std::uint8_t>(i >> 8);
    expected[i] = family.reference(a[i], b[i], run);
  }
  const GuardedBuffer<std::uint8_t> output(kPairs, Edge::end);
  run.a = a.data();
  run.b = b.data();
  run.output = output.data();
  run.count = kPairs;
  describe_case("%s: every pair of codes, scales %a, %a to %a", family.name,
                static_cast<double>(run.a_parameters.scale), static_cast<double>(run.b_parameters.scale),
                static_cast<double>(run.output_parameters.scale));
  family.kernel(run);
  check.equal(output, expected);
}

template <class Run>
void check_pairs(Check& check, const PairFamily<Run>& family) {
  for (const std::size_t count : run_lengths()) {
    for (const Edge edge : kEdges) {
      for (const PairOutput where : {PairOutput::elsewhere, PairOutput::in_a, PairOutput::in_b}) {
        describe_case("%s, count %zu, edge %d, output %d", family.name, count, static_cast<int>(edge),
                      static_cast<int>(where));
        for (int repeat = 0; repeat < 4; ++repeat) check_pair_run(check, family, count, edge, where);
      }
    }
  }
  for (int repeat = 0; repeat < 32; ++repeat) check_all_pairs(check, family);
}

}  // namespace dmlcpu::test
