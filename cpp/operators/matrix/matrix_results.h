// How what a product computed becomes its output, a region at a time: sums through rescale/rescale.h, and where the
// columns of the output are no neighbours, by way of rows in scratch memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_product.h"

namespace dmlcpu {

// A part of one product's output.
struct MatrixRegion {
  std::array<std::int64_t, kBatchAxes> index;
  std::int64_t first_row, rows, first_column, columns;
};

class MatrixResults {
 public:
  MatrixResults(const MatrixProductDesc& desc, const PackKernels& pack)
      : desc_(desc), geometry_(desc_.geometry), pack_(pack) {}

  // Whether the columns of the output are neighbours, so that results are written where they belong.
  bool are_direct() const { return !geometry_.stages_output(); }

  // Takes what regions of so many elements need of a participant's scratch memory, `own` below.
  void take(BufferLayout& layout, std::size_t elements);
  // Where results that are not direct wait for scatter().
  std::uint8_t* waiting(std::uint8_t* own) const noexcept { return own + results_; }

  std::uint8_t* output_of(const MatrixDispatch& dispatch, const MatrixRegion& region) const noexcept;
  // Rows of sums that follow each other become a region of the output. column_sum is null where a's zero points are in
  // the sums.
  void write_rescaled(const MatrixDispatch& dispatch, const MatrixRegion& region, const std::int32_t* sums,
                      const std::int32_t* column_sum, std::uint8_t* own) const noexcept;
  // Results whose columns follow each other, to an output where they do not.
  void scatter(const std::uint8_t* results, const MatrixRegion& region, std::uint8_t* output) const noexcept;

 private:
  struct Bias {
    const std::uint8_t* data;
    std::size_t row_stride;
  };
  Bias bias_of(const MatrixDispatch& dispatch, const MatrixRegion& region, std::uint8_t* own) const noexcept;

  const MatrixProductDesc& desc_;
  const MatrixGeometry& geometry_;
  const PackKernels& pack_;
  std::size_t results_ = 0, bias_ = 0;  // of a participant's scratch memory
};

}  // namespace dmlcpu
