#include "operators/matrix/packed_matrices.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/gemm/gemm.h"
#include "operators/buffer_layout.h"
#include "operators/sizes.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {

PanelSizes::PanelSizes(const MatrixGeometry& geometry, const GemmKernels& kernels)
    : nr(kernels.nr),
      k_padded(round_up(as_size(geometry.k), kernels.kr)),
      count(divide_up(geometry.n, static_cast<std::int64_t>(kernels.nr))) {
  if (k_padded > INT64_MAX) throw std::bad_alloc();
}

StridedCodes right_matrix(const MatrixGeometry& geometry, const std::uint8_t* b, std::int64_t matrix,
                          std::uint8_t flip) {
  return {b + geometry.offset_of_matrix(matrix), geometry.b.row, geometry.b.column, flip};
}

PackedMatrices::PackedMatrices(const MatrixGeometry& geometry, std::uint8_t flip, bool owned,
                               const KernelTable& kernels)
    : geometry_(geometry), flip_(flip), gemm_(*kernels.gemm), pack_(*kernels.pack), panels_(geometry, gemm_) {
  const double rows = as_number(geometry.m) * as_number(geometry.products_of_matrix());
  const bool has_many_rows = rows >= static_cast<double>(gemm_.many_rows);
  const bool pays = (owned || has_many_rows) && panels_.k_padded / 4 <= kMostOrderedSteps;
  order_steps_ = pays ? gemm_.order_steps : nullptr;
  BufferLayout matrix;
  matrix.take(panels_.columns(), panels_.k_padded);
  matrix.take(panels_.columns(), sizeof(std::int32_t));
  order_offset_ =
      matrix.take(order_steps_ == nullptr ? 0 : as_size(panels_.count), order_stride() * sizeof(std::uint16_t));
  matrix_bytes_ = static_cast<std::int64_t>(matrix.size());
  size_ = matrix.size_of(as_size(geometry.matrices()));
}

std::vector<std::size_t> PackedMatrices::packing() const {
  return {panels_.nr,
          panels_.k_padded,
          panels_.columns(),
          size_,
          flip_,
          as_size(geometry_.matrices()),
          order_steps_ != nullptr ? 1U : 0U};
}

void PackedMatrices::pack(const std::uint8_t* b, std::uint8_t* packed) const {
  const std::vector<std::uint8_t> ones(panels_.k_padded, 1);
  const std::size_t of_panels = panels_.columns() * panels_.k_padded;
  for (std::int64_t matrix = 0; matrix < geometry_.matrices(); ++matrix) {
    // What fills up the parts behind the panels: equal matrices have equal bytes.
    std::memset(packed + matrix * matrix_bytes_ + of_panels, 0, as_size(matrix_bytes_) - of_panels);
    for (std::int64_t part = 0; part < parts(); ++part) {
      pack_part(b, matrix, part, ones.data(), packed + matrix * matrix_bytes_);
    }
  }
}

PackedMatrices::Columns PackedMatrices::columns_of(std::int64_t part) const {
  const std::int64_t of_part = kPanelsOfPart * static_cast<std::int64_t>(panels_.nr), first = part * of_part;
  return {first, std::min(of_part, geometry_.n - first)};
}

// Columns are summed by a row of ones.
void PackedMatrices::pack_part(const std::uint8_t* b, std::int64_t matrix, std::int64_t part, const std::uint8_t* ones,
                               std::uint8_t* packed_matrix) const noexcept {
  const Columns columns = columns_of(part);
  std::uint8_t* panels = packed_matrix + as_size(part * kPanelsOfPart) * panels_.bytes();
  pack_right(pack_, right_matrix(geometry_, b, matrix, flip_), {0, geometry_.k, columns.first, columns.count},
             panels_.nr, panels_.k_padded, panels);
  alignas(kAlignment) constexpr std::int32_t kZeros[kPanelsOfPart * kMostPanelColumns] = {};
  std::int32_t* sums = reinterpret_cast<std::int32_t*>(packed_matrix + panels_.columns() * panels_.k_padded);
  gemm_.multiply({.a = ones,
                  .a_row_stride = panels_.k_padded,
                  .b = panels,
                  .b_panel_stride = panels_.bytes(),
                  .m = 1,
                  .n = as_size(columns.count),
                  .k = panels_.k_padded,
                  .offset = kZeros,
                  .sums = sums + columns.first});
  if (order_steps_ == nullptr) return;
  auto* steps = reinterpret_cast<std::uint16_t*>(packed_matrix + order_offset_);
  const std::size_t first = as_size(part * kPanelsOfPart);
  for (std::size_t i = 0; i * panels_.nr < as_size(columns.count); ++i) {
    order_steps_(panels + i * panels_.bytes(), 1, panels_.k_padded, steps + (first + i) * order_stride());
  }
}

}  // namespace dmlcpu
