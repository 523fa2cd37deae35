// The normative form of table.h in plain C++.
#include "kernels/table/table.h"

namespace dmlcpu {
namespace {

void look_up(const TableRun& run) noexcept {
  // Copies: a store of a byte could change what the reference refers to.
  const std::uint8_t *table = run.table, *input = run.input;
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
  for (std::size_t i = 0; i < count; ++i) output[i] = table[input[i]];
}

void look_up_floats(const FloatTableRun& run) noexcept {
  const float* table = run.table;
  const std::uint8_t* input = run.input;
  float* output = run.output;
  const std::size_t count = run.count;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < count; ++i) output[i] = table[input[i]];
}

}  // namespace

constinit const TableKernels scalar::table = {.look_up = look_up, .look_up_floats = look_up_floats};

}  // namespace dmlcpu
