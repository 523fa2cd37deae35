// A float32 matrix as kernels/float_product reads it fastest: panels of 64 columns, the rows of a panel one after the
// other. The last panel is filled up with zeros, which no kernel reads, so that equal matrices have equal bytes
// (runtime/shared_buffers.h).
//
//   panel 0: b[0][0..63], b[1][0..63], ... b[k - 1][0..63]; panel 1: b[0][64..127], ...
//
// Columns that are neighbours in memory are copied; rows that are neighbours, as in a transposed matrix, are transposed
// as 32-bit groups; all others go one by one.
#pragma once

#include <cstdint>

#include "kernels/pack/pack.h"
#include "operators/float_tiles.h"
#include "operators/matrix/matrix_geometry.h"

namespace dmlcpu {

// Elements of the panels of k rows by n columns.
constexpr std::int64_t float_panels_size(std::int64_t k, std::int64_t n) {
  return (n + kFloatPanelColumns - 1) / kFloatPanelColumns * kFloatPanelColumns * k;
}

// k rows by at most 64 columns, from b on; what fills a panel up stays as it is.
void pack_float_panel(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                      std::int64_t columns, float* panel) noexcept;

// All panels of k rows by n columns.
void pack_float_panels(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                       std::int64_t n, float* panels) noexcept;

}  // namespace dmlcpu
