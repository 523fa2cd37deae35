// What one instruction set runs: a column for each kernel family. kernels/dispatch.cpp holds a row for each
// instruction set.
#pragma once

#include "kernels/add/add.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped/grouped.h"
#include "kernels/pack/pack.h"
#include "kernels/quantize/quantize.h"
#include "kernels/range/range.h"
#include "runtime/isa.h"

namespace dmlcpu {

struct KernelTable {
  Isa isa;
  const GemmKernels* gemm;
  const DepthwiseKernels* depthwise;
  const GroupedKernels* grouped;
  const PackKernels* pack;
  const QuantizeKernels* quantize;
  const DequantizeKernels* dequantize;
  const AddKernels* add;
  const RangeKernels* range;
};

}  // namespace dmlcpu
