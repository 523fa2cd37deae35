// Some rows of a plane of floats with their padding, one behind the other: a band. The windows of several output rows
// are one run of it, of which the elements behind a row's last window are none. Bands are copies, of a few KiB, or the
// rows of the plane itself where these have no padding: short rows by themselves are mostly edges, where padding is
// masked. Extremes are those of rows first, and of these then: so what windows share is compared once, and in an order
// that gives the same.
#pragma once

#include <cstdint>

#include "operators/operator.h"
#include "operators/pooling/float_pool_function.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

class FloatBands {
 public:
  // Geometry outlives the bands, and does not change.
  FloatBands(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target);

  // Output rows that are pooled together; 1 where they are better pooled by themselves.
  std::int64_t rows() const;

  // Rows of a plane's output from y on, at most rows() of them, with the arithmetic of kernels/float_pool/float_pool.h.
  void run(const float* plane, float* output, std::int64_t y, std::int64_t rows) const noexcept;

 private:
  static constexpr std::int64_t kElements = 4096, kResults = 2048;

  void fill(const float* plane, std::int64_t first, std::int64_t rows, float* band) const noexcept;
  // Of averages: one for each result, or one for all.
  struct Divisors {
    const float* values = nullptr;
    bool repeats = false;
  };

  void pool(const float* band, std::int64_t rows, const Divisors& divisors, float* results) const noexcept;
  void pool_rows_first(const float* band, std::int64_t rows, float* results) const noexcept;
  // The numbers of taps of the windows; whether it is the same of all, and filled once.
  bool fill_divisors(std::int64_t y, std::int64_t rows, float* divisors) const noexcept;

  const PoolingGeometry& geometry_;
  FloatPool function_;
  std::int64_t width_;  // of a row with the padding that its windows reach
  bool rows_first_;
  IndexRange whole_columns_;
  FloatPoolFunction pool_;
};

// Planes that lie one behind the other, and which no window reaches beyond, as one, if that is pooled in bands: by
// lanes, of which the scalar kernels have none. Else the geometry as it is.
PoolingGeometry with_joined_planes(const PoolingGeometry& of_planes, FloatPool function, const ExecutionTarget& target);

}  // namespace dmlcpu
