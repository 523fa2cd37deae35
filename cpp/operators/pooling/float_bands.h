// Some rows of a plane of floats with their padding, one behind the other: a band. The windows of several output rows
// are one run of it, of which the elements behind a row's last window are none. Bands are copies, of a few KiB: short
// rows by themselves are mostly edges, where padding is masked. Extremes are those of rows first, and of these
// then: so what windows share is compared once, and in an order that gives the same.
#pragma once

#include <cstdint>

#include "operators/operator.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

enum class FloatPool : std::uint8_t { averages, maxima, minima };

// The kernel of sums, maxima or minima.
FloatPoolFunction windows_kernel(FloatPool function, const ExecutionTarget& target);
// That of two elements.
FloatBinary binary_function(FloatPool function);
// What changes none of them.
float neutral_float(FloatPool function);

class FloatBands {
 public:
  // Geometry outlives the bands.
  FloatBands(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target);

  // Output rows that are pooled together; 1 where they are better pooled by themselves.
  std::int64_t rows() const;

  // Rows of a plane's output from y on, at most rows() of them, with the arithmetic of kernels/float_pool/float_pool.h.
  void run(const float* plane, float* output, std::int64_t y, std::int64_t rows) const noexcept;

 private:
  static constexpr std::int64_t kElements = 4096, kResults = 2048;

  std::int64_t width() const;
  void fill(const float* plane, std::int64_t first, std::int64_t rows, float* band) const noexcept;
  void pool(const float* band, std::int64_t rows, float* results) const noexcept;
  void pool_rows_first(const float* band, std::int64_t rows, float* results) const noexcept;
  void divide(float* sums, std::int64_t y, std::int64_t rows) const noexcept;

  const PoolingGeometry& geometry_;
  FloatPool function_;
  bool rows_first_;
  IndexRange whole_columns_;
  FloatPoolFunction pool_;
  FloatBinaryFunction divide_;
};

}  // namespace dmlcpu
