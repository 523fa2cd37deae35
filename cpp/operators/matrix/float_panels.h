// A float32 matrix as kernels/float_product reads it fastest: panels of `width` columns, the rows of a panel one after
// the other. The last panel is filled up with zeros, which no kernel reads, so that equal matrices have equal bytes
// (runtime/shared_buffers.h).
//
//   panel 0: b[0][0..width - 1], b[1][0..width - 1], ... b[k - 1][0..width - 1]; panel 1: b[0][width..], ...
//
// Columns that are neighbours in memory are copied; rows that are neighbours, as in a transposed matrix, are transposed
// as 32-bit groups; all others go one by one.
#pragma once

#include <cstdint>

#include "kernels/float_product/float_product.h"
#include "kernels/pack/pack.h"
#include "operators/float_tiles.h"
#include "operators/matrix/matrix_geometry.h"

namespace dmlcpu {

// The width of the panels of a constant b that so many rows of a meet: as narrow as the kernel wants, and 64 for up to
// three rows, which kernels compute one by one, by 64 columns at once.
std::int64_t float_panel_width(const FloatProductKernels& kernels, std::int64_t rows);

// How many of k terms a block has where panels are below 64 columns wide. Such a block lies in one piece, so that a
// level-2 cache keeps up with the tiles of registers: it takes 64 KiB of one at most, and the rows of a 384 KiB.
std::int64_t narrow_panel_terms(std::int64_t rows, std::int64_t k);

// Elements of the panels of k rows by n columns.
constexpr std::int64_t float_panels_size(std::int64_t k, std::int64_t n, std::int64_t width) {
  return (n + width - 1) / width * width * k;
}

// k rows by at most `width` columns, from b on; what fills a panel up stays as it is.
void pack_float_panel(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                      std::int64_t columns, std::int64_t width, float* panel) noexcept;

// All panels of k rows by n columns.
void pack_float_panels(const PackKernels& kernels, const float* b, const MatrixStrides& strides, std::int64_t k,
                       std::int64_t n, std::int64_t width, float* panels) noexcept;

// Adds the products of a's rows and all columns of the block, whose b is a row of the first panel: b_row_stride is the
// width of panels, which have so many rows.
void accumulate_panels(const FloatProductKernels& kernels, FloatProductBlock block, std::int64_t panel_rows) noexcept;

}  // namespace dmlcpu
