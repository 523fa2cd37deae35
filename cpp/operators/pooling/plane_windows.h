// Windows that are a plane, or most of it, of which neither neighbouring columns nor channels make runs.
#pragma once

#include "operators/operator.h"
#include "operators/pooling/float_pool_function.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

// Whether the rows of such windows are one run in memory.
bool joins_rows(const PoolingGeometry& geometry);

// Whether the only window of each plane consists of runs that are long enough to be taken in lanes.
bool are_long_rows(const PoolingGeometry& geometry);
// The extreme of all taps of the only window of a plane whose rows are long.
float extreme_of_plane(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target,
                       const float* plane);

// Whether it is one run of a few elements: many of these are sooner transposed and pooled side by side.
bool are_short_planes(const PoolingGeometry& geometry);

}  // namespace dmlcpu
