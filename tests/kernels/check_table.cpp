#include "check.h"
#include "kernels/dispatch.h"

namespace dmlcpu::test {
namespace {

std::vector<std::uint8_t> draw_codes(Check& check, std::size_t count) {
  std::vector<std::uint8_t> codes(count);
  for (std::uint8_t& code : codes) code = check.code();
  return codes;
}

void check_look_up(Check& check, const TableKernels& kernels, const std::vector<std::uint8_t>& input, Edge edge,
                   bool in_place) {
  const std::vector<std::uint8_t> table = draw_codes(check, 256);
  std::vector<std::uint8_t> expected(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) expected[i] = table[input[i]];
  const GuardedBuffer<std::uint8_t> guarded_table(table, edge), guarded_input(input, edge), output(input.size(), edge);
  if (in_place && !input.empty()) std::memcpy(output.data(), input.data(), input.size());
  kernels.look_up({.table = guarded_table.data(),
                   .input = in_place ? output.data() : guarded_input.data(),
                   .count = input.size(),
                   .output = output.data()});
  check.equal(output, expected);
}

void check_floats(Check& check, const TableKernels& kernels, const std::vector<std::uint8_t>& input, Edge edge) {
  std::vector<std::uint32_t> table(256), expected(input.size());
  for (std::uint32_t& bits : table) {
    for (int i = 0; i < 4; ++i) bits = bits << 8 | check.code();
  }
  for (std::size_t i = 0; i < input.size(); ++i) expected[i] = table[input[i]];
  const GuardedBuffer<std::uint32_t> guarded_table(table, edge), output(input.size(), edge);
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge);
  kernels.look_up_floats({.table = reinterpret_cast<const float*>(guarded_table.data()),
                          .input = guarded_input.data(),
                          .count = input.size(),
                          .output = reinterpret_cast<float*>(output.data())});
  check.equal(output, expected);
}

// Every code at every place of a vector.
std::vector<std::uint8_t> every_code() {
  std::vector<std::uint8_t> codes(64 * 257);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i % 257);
  return codes;
}

void check_kernels(Check& check, const TableKernels& kernels, const char* name) {
  for (const Edge edge : kEdges) {
    for (const std::size_t count : run_lengths()) {
      describe_case("%s of floats, count %zu, edge %d", name, count, static_cast<int>(edge));
      check_floats(check, kernels, draw_codes(check, count), edge);
    }
    describe_case("%s of floats, every code, edge %d", name, static_cast<int>(edge));
    check_floats(check, kernels, every_code(), edge);
    for (const bool in_place : {false, true}) {
      for (const std::size_t count : run_lengths()) {
        describe_case("%s, count %zu, edge %d, in place %d", name, count, static_cast<int>(edge), int{in_place});
        check_look_up(check, kernels, draw_codes(check, count), edge, in_place);
      }
      describe_case("%s, every code, edge %d, in place %d", name, static_cast<int>(edge), int{in_place});
      check_look_up(check, kernels, every_code(), edge, in_place);
    }
  }
}

}  // namespace

void check_table(Check& check) {
  check_kernels(check, *check.table.table, "table");
  const TableKernels* plain = kernel_table_without_vbmi(check.table.isa).table;
  if (plain != check.table.table) check_kernels(check, *plain, "table without AVX512_VBMI");
}

}  // namespace dmlcpu::test
