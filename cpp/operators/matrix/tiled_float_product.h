// What FLOAT_PRODUCT and DEQUANTIZED_PRODUCT share: a product of float32 matrices in tiles of rows and columns, every
// sum a chain of fused multiply-adds with k ascending, begun at 0. They differ in where b comes from.
//
//   for each tile of up to 128 rows and as many columns as the operator wants (in parallel):
//     for a block of terms, up to 128 unless the operator wants others, one after the other:
//       gather a's, where they are no neighbours
//       accumulate(): the product of the terms, added to the sums
//     spread the sums over the output, where its columns are no neighbours
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/float_product/float_product.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/sizes.h"

namespace dmlcpu {

class TiledFloatProduct : public CompiledOperator {
 public:
  std::size_t temporary_size() const final { return as_size(participants()) * participant_size_; }

 protected:
  // output is its tensor's number; a's is 0. own_size bytes of scratch memory are accumulate()'s.
  TiledFloatProduct(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const MatrixGeometry& geometry,
                    std::size_t output, std::int64_t tile_columns, std::size_t own_size);

  // Of b: the matrix's product, and the first of the terms and columns.
  struct Terms {
    std::int64_t product, k, column;
  };
  // Adds the product of a's terms and b's to sums, as kernels/float_product does: all of block but b is set.
  virtual void accumulate(const TensorPointers& tensors, const Terms& terms, FloatProductBlock& block,
                          std::uint8_t* own) const noexcept = 0;
  // How many terms are taken at once from k on: at most kFloatBlockTerms where a is gathered.
  virtual std::int64_t terms_from(std::int64_t k) const noexcept;

  void run(const TensorPointers& tensors) const final;

  const MatrixGeometry& geometry() const { return geometry_; }
  // In words.
  std::string describe_tiles() const;

 private:
  std::int64_t participants() const;
  void run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept;

  MatrixGeometry geometry_;
  std::size_t output_;
  std::int64_t tile_columns_, row_tiles_, column_tiles_, tasks_;
  std::size_t a_values_ = 0, sums_ = 0, participant_size_ = 0;
};

}  // namespace dmlcpu
