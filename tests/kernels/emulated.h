// Kernels of instruction sets that this machine may lack, built against emulation/immintrin.h. They prove the kernels'
// logic, their addressing and their tile configuration; the instructions themselves only a machine that has them can.
#pragma once

#include <vector>

#include "kernels/kernel_table.h"

namespace dmlcpu::test {

struct EmulatedGemm {
  const char* name;
  const GemmKernels* gemm;
};

std::vector<EmulatedGemm> emulated_gemms();

}  // namespace dmlcpu::test
