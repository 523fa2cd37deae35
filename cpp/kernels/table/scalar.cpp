// The normative form of table.h in plain C++.
#include "kernels/table/table.h"

namespace dmlcpu {
namespace {

// By value: a store of a byte could change what a reference refers to.
void look_up_bytes(TableRun run) noexcept {
  for (std::size_t i = 0; i < run.count; ++i) run.output[i] = run.table[run.input[i]];
}

void look_up(const TableRun& run) noexcept { look_up_bytes(run); }

}  // namespace

constinit const TableKernels scalar::table = {.look_up = look_up};

}  // namespace dmlcpu
