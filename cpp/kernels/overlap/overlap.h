// Whether a box overlaps any of some others by more than a share (non-maximum suppression).
//
//   shared = (min(x_max, box.x_max) - max(x_min, box.x_min)) * (min(y_max, box.y_max) - max(y_min, box.y_min))
//   shared / (area + box.area - shared) > most            with both factors, both areas and the union above 0
//
// float32, each operation rounded once. What is compared with NaN does not overlap.
//
// Contract: count is a multiple of kBoxesABlock; boxes of area 0 fill the last block up. Reads that many of each array
// alone; no alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

inline constexpr std::size_t kBoxesABlock = 16;

// Corners in order: x_min <= x_max, y_min <= y_max.
struct Box {
  float x_min, y_min, x_max, y_max, area;
};

struct OverlapRun {
  const float* x_min;  // of all boxes, and so on
  const float* y_min;
  const float* x_max;
  const float* y_max;
  const float* area;
  std::size_t count;
  Box box;
  float most;
};

struct OverlapKernels {
  bool (*overlaps)(const OverlapRun& run) noexcept;
};

namespace scalar {
extern const OverlapKernels overlap;
}
namespace avx2 {
extern const OverlapKernels overlap;
}
namespace avx512_vnni {
extern const OverlapKernels overlap;
}

}  // namespace dmlcpu
