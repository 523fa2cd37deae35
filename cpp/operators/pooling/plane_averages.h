// Averages of windows that move by one element and have as many results as there are elements, of planes that are not
// large: in place, without a copy of the rows with their padding, whatever the length of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "operators/operator.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

class PlaneAverages {
 public:
  // Whether the windows of a geometry are such, and it pays: by lanes, of which the scalar kernels have none. Not of
  // images of one channel, whose layout is any.
  static bool applies(const PoolingGeometry& geometry, const ExecutionTarget& target);

  // Of such a geometry.
  PlaneAverages(const PoolingGeometry& geometry, const ExecutionTarget& target);

  void run(const float* plane, float* output) const noexcept;

 private:
  FloatPlane plane_;  // without pointers
  std::vector<std::uint8_t> inside_;
  std::vector<float> divisors_;
  void (*kernel_)(const FloatPlane&) noexcept;
};

}  // namespace dmlcpu
