// The check of the families that make one code of two: add and multiply.
#pragma once

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
