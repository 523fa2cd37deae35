// GRID_SAMPLE of volumes: tensors input {N, C, D, H, W}, grid {N, OD, OH, OW, 3}, output {N, C, OD, OH, OW}, FLOAT32;
// entries x, y and z, or in pixels z, y and x.
//
//   between  (1 - w) * b0 + w * b1, each operation rounded, where b0 and b1 are what an image of the volume would have
//            before and behind the point, and w is how far it is beyond the first
#pragma once

#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

std::unique_ptr<CompiledOperator> compile_volume_sample(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
