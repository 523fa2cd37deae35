// Windows of one row of FLOAT_POOLING's output that are pooled together: sums in halves where they are of many taps, by
// runs of windows, or tap by tap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/operator.h"
#include "operators/pooling/float_pool_function.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"

namespace dmlcpu {

class PooledWindows {
 public:
  // Elements of a block, of which each of up to 54 halvings within each other keeps the sums of a half.
  static constexpr std::int64_t kMostHalved = 64;

  // Whether sums of all taps are those of halves.
  static bool are_halved(const PoolingGeometry& geometry);

  enum class Layout : std::uint8_t {
    runs,        // elements are neighbours in the input, or two apart
    transposed,  // of each tap they are, once planes are transposed
    gathered,    // each tap of theirs is brought together
  };

  // Taps of a window, the padding's among them.
  struct Taps {
    IndexRange rows, columns;
  };

  // Columns with their channels: as many elements as a chunk holds, or as kMostHalved.
  struct Windows {
    const float* input;  // row 0 and column 0 of the first channel
    std::int64_t y;
    IndexRange columns;
    std::size_t channels;
    Taps inside;  // those that some window has inside of the image

    std::size_t count() const { return as_size(columns.count()) * channels; }
    Taps inside_of(const Taps& taps) const;
  };

  // Geometry outlives the windows, and does not change.
  PooledWindows(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target, Layout layout);

  // Output is the first of the windows' results, whose columns and channels have the geometry's steps.
  void pool(const Windows& windows, float* output) const noexcept;

 private:
  // Of averages: one for each result, or one for all; null of others, and of what is divided later.
  struct Divisors {
    const float* values = nullptr;
    bool repeats = false;
  };

  Divisors divisors_of(const Windows& windows, float* values) const noexcept;
  // Halves without a tap in the image are left out: they would add 0 to sums that are never -0.
  void add_halves(const Windows& windows, const Taps& taps, float* sums) const noexcept;
  // Sums over divisors, or extremes, of taps that are inside of the image, of each row in some window.
  void pool_taps(const Windows& windows, const Taps& taps, const Divisors& divisors, float* results) const noexcept;
  // Input is column 0 of the first row.
  void pool_run(const float* input, const Windows& windows, const Taps& taps, const Divisors& divisors,
                float* results) const noexcept;
  // Of each tap the elements of all planes become a row.
  void pool_transposed(const float* input, const Windows& windows, float* results) const noexcept;
  // Each tap of all columns is gathered.
  void pool_staged(const float* input, const Windows& windows, const Taps& taps, float* results) const noexcept;
  FloatBinaryFunction function(FloatBinary binary) const noexcept;
  // The columns whose tap is inside of the image.
  IndexRange inside(IndexRange columns, std::int64_t tap) const noexcept;
  void divide(float* sums, std::size_t count, const Divisors& divisors) const noexcept;

  const PoolingGeometry& geometry_;
  FloatPool function_;
  const ExecutionTarget& target_;
  bool halves_;
  Layout layout_;
  IndexRange whole_columns_;
};

}  // namespace dmlcpu
