// Which kernels run on which CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"

namespace dmlcpu {

// The row of one instruction set. Calling its kernels is valid only where unavailable_reason(isa) is empty.
const KernelTable& kernel_table(Isa isa) noexcept;

// The row as a CPU without AVX512_VBMI has it, for tests alone: others do not run these kernels.
const KernelTable& kernel_table_without_vbmi(Isa isa) noexcept;

// Why this process cannot run the row, in words for a person; empty if it can. Decided once per process.
const std::string& unavailable_reason(Isa isa);

// The rows that this process can run, worst to best. Never empty: scalar always runs.
std::vector<Isa> available_isas();

// For each kernel family the instruction set whose kernel a row runs on this CPU: its own, the lower one that it
// borrows from, or avx512_vbmi.
struct KernelOrigin {
  std::string_view family, isa;
};
std::vector<KernelOrigin> kernel_origins(Isa isa);

}  // namespace dmlcpu
