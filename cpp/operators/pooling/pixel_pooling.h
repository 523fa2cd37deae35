// FLOAT_POOLING of small planes, of which as many as a vector has lanes are transposed: an element of each is a vector,
// and any window is a sum, or an extreme, of whole vectors. Short rows by themselves would be vectors of edges.
#pragma once

#include <memory>

#include "operators/operator.h"
#include "operators/pooling/float_pool_function.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

// Whether planes are such, and it pays: by lanes, of which the scalar kernels have none.
bool are_pixels(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target);

// The operator of such a geometry.
std::unique_ptr<CompiledOperator> compile_pixel_pooling(OperatorDesc desc, ExecutionTarget target,
                                                        const PoolingGeometry& geometry, FloatPool function);

}  // namespace dmlcpu
