// The normative form of table.h in plain C++.
#include "kernels/table/table.h"

namespace dmlcpu {
namespace {

void look_up(const TableRun& run) noexcept {
  for (std::size_t i = 0; i < run.count; ++i) run.output[i] = run.table[run.input[i]];
}

}  // namespace

constinit const TableKernels scalar::table = {.look_up = look_up};

}  // namespace dmlcpu
