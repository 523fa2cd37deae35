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

#include "kernels/kernel_table.h"
#include "operators/float_tiles.h"
#include "operators/matrix/matrix_geometry.h"

namespace dmlcpu {

// Of panels, as the kernels of a CPU want it, whatever rows meet them: a decoder's prompts and tokens share a packing.
std::int64_t float_panel_width(const KernelTable& kernels);

// How many of k terms are a block for so many rows where panels are below 64 columns wide. Blocks of a few rows are all
// of k; of others they take 64 KiB of a panel at most, so that the next panel, which kernels ask for meanwhile, waits
// in a level-2 cache, and 384 KiB of the rows.
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

}  // namespace dmlcpu
