// All matrices of a product's b, packed whole: for each the panels of gemm/gemm.h's b, then the sums of its columns,
// and the order of each panel's steps where that pays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dispatch.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/matrix/matrix_packing.h"
#include "operators/sizes.h"

namespace dmlcpu {

// Of the panels that one matrix is packed in.
struct PanelSizes {
  std::size_t nr;        // columns of one
  std::size_t k_padded;  // terms, in whole steps of the kernel
  std::int64_t count;

  // Throws std::bad_alloc for a k that no whole steps can have: of tensors that repeat an element, k is of any size.
  PanelSizes(const MatrixGeometry& geometry, const GemmKernels& kernels);

  std::size_t columns() const { return as_size(count) * nr; }
  std::size_t bytes() const { return k_padded * nr; }  // of one
};

// A matrix of b as it lies in memory.
StridedCodes right_matrix(const MatrixGeometry& geometry, const std::uint8_t* b, std::int64_t matrix,
                          std::uint8_t flip);

class PackedMatrices {
 public:
  // flip is 0x80 for UINT8 codes, which become signed. Owned matrices are packed once.
  PackedMatrices(const MatrixGeometry& geometry, std::uint8_t flip, bool owned, const KernelTable& kernels);

  // Bytes of all, and from one to the next.
  std::size_t size() const { return size_; }
  std::int64_t matrix_bytes() const { return matrix_bytes_; }
  // See CompiledOperator::packing. Matrices are packed in the order that b has them in, whatever the batch.
  std::vector<std::size_t> packing() const;
  void pack(const std::uint8_t* b, std::uint8_t* packed) const;

  // The same in parts, which several threads may pack at once. A part is so many panels that it reads whole cache lines
  // of each row of b, and so few that the caches follow all that are written. `ones` are k_padded of them.
  std::int64_t parts() const { return divide_up(panels_.count, kPanelsOfPart); }
  struct Columns {
    std::int64_t first, count;
  };
  Columns columns_of(std::int64_t part) const;
  void pack_part(const std::uint8_t* b, std::int64_t matrix, std::int64_t part, const std::uint8_t* ones,
                 std::uint8_t* packed_matrix) const noexcept;
  const std::int32_t* column_sums(const std::uint8_t* packed_matrix) const {
    return reinterpret_cast<const std::int32_t*>(packed_matrix + panels_.columns() * panels_.k_padded);
  }
  // Of a panel, as products take it, which are order_stride() elements apart; null where none is kept.
  const std::uint16_t* order(const std::uint8_t* packed_matrix, std::size_t panel) const {
    if (order_steps_ == nullptr) return nullptr;
    return reinterpret_cast<const std::uint16_t*>(packed_matrix + order_offset_) + panel * order_stride();
  }
  std::size_t order_stride() const { return kOrderCounts + panels_.k_padded / 4; }

 private:
  static constexpr std::int64_t kPanelsOfPart = 16;

  MatrixGeometry geometry_;
  std::uint8_t flip_;
  const GemmKernels& gemm_;
  const PackKernels& pack_;
  PanelSizes panels_;
  OrderFunction order_steps_;  // null where no order is kept
  std::size_t order_offset_;
  std::int64_t matrix_bytes_;
  std::size_t size_;
};

}  // namespace dmlcpu
