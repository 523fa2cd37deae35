// The normative arithmetic of overlap.h in plain C++.
#include "kernels/overlap/overlap.h"

namespace dmlcpu {
namespace {

bool overlaps_any(const OverlapRun& run) noexcept {
  const Box box = run.box;
  for (std::size_t i = 0; i < run.count; ++i) {
    const float right = box.x_max < run.x_max[i] ? box.x_max : run.x_max[i];
    const float left = box.x_min > run.x_min[i] ? box.x_min : run.x_min[i];
    if (!(right > left)) continue;
    const float bottom = box.y_max < run.y_max[i] ? box.y_max : run.y_max[i];
    const float top = box.y_min > run.y_min[i] ? box.y_min : run.y_min[i];
    if (!(bottom > top)) continue;
    const float shared = (right - left) * (bottom - top), joined = run.area[i] + box.area - shared;
    if (shared > 0 && run.area[i] > 0 && box.area > 0 && joined > 0 && shared / joined > run.most) return true;
  }
  return false;
}

}  // namespace

constinit const OverlapKernels scalar::overlap = {.overlaps = overlaps_any};

}  // namespace dmlcpu
