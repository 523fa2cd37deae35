#include "operators/pooling/plane_windows.h"

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// One window in each plane, whose rows are runs, and channels apart.
bool are_rows_of_planes(const PoolingGeometry& geometry) {
  const PoolingAxis& horizontal = geometry.axes[2];
  return geometry.axes[1].output == 1 && horizontal.output == 1 && horizontal.input_step == 1 &&
         horizontal.dilation == 1 && geometry.input_channel_step != 1;
}

}  // namespace

bool joins_rows(const PoolingGeometry& geometry) {
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const bool adjoin = vertical.window == 1 || vertical.dilation * vertical.input_step == horizontal.input;
  return adjoin && horizontal.padding == 0 && horizontal.window == horizontal.input;
}

bool are_long_rows(const PoolingGeometry& geometry) {
  constexpr std::int64_t kLongRun = 32;
  if (!are_rows_of_planes(geometry)) return false;
  const IndexRange rows = geometry.axes[1].taps(0), columns = geometry.axes[2].taps(0);
  return (columns.end - columns.begin) * (joins_rows(geometry) ? rows.end - rows.begin : 1) >= kLongRun;
}

float extreme_of_plane(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target,
                       const float* plane) {
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const IndexRange rows = vertical.taps(0), columns = horizontal.taps(0);
  const bool joins = joins_rows(geometry);
  const std::size_t count = as_size(columns.count());
  const FloatPoolKernels& kernels = *target.kernels().float_pool;
  return (function == FloatPool::maxima ? kernels.largest : kernels.smallest)(
      {.input = plane + vertical.position(0, rows.begin) * vertical.input_step + horizontal.position(0, columns.begin),
       .rows = joins ? 1 : as_size(rows.count()),
       .row_step = vertical.dilation * vertical.input_step,
       .count = joins ? as_size(rows.count()) * count : count});
}

bool are_short_planes(const PoolingGeometry& geometry) {
  constexpr std::int64_t kLeastTaps = 8, kMostTaps = 64, kLeastPlanes = 4;
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  if (!are_rows_of_planes(geometry) || !joins_rows(geometry) || geometry.channels < kLeastPlanes) return false;
  if (vertical.padding != 0 || vertical.window != vertical.input || horizontal.window > kMostTaps) return false;
  const std::int64_t taps = vertical.window * horizontal.window;  // of a plane, so that it does not overflow
  return taps >= kLeastTaps && taps <= kMostTaps;
}

}  // namespace dmlcpu
