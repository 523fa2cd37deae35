// Kernels of instruction sets that this machine lacks, built against emulation/. They prove the kernels' logic,
// their addressing and their tile configuration; the instructions themselves only a machine that has them can.
#pragma once

#include <vector>

#include "check.h"

namespace dmlcpu::test {

struct EmulatedKernels {
  const char* isa;
  const char* family;
  KernelTable table;  // that of scalar with these kernels
  void (*check)(Check& check);
};

std::vector<EmulatedKernels> emulated_kernels();

}  // namespace dmlcpu::test
