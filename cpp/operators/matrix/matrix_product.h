// The 8-bit matrix product under the matrix operators, in one of two ways, each in a file of its own:
//
//   packed     b is packed whole, once where it is owned, then tiles of rows meet blocks of columns
//   streamed   few rows and a b that is not owned: b is read once, a block of k at a time is packed into a cache and
//              used up there, while sums wait
//
// Sums leave as they are, as codes made in the product (gemm/gemm.h), or through rescale/rescale.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "operators/matrix/matrix_geometry.h"
#include "operators/matrix/packed_matrices.h"
#include "operators/operator.h"

namespace dmlcpu {

// What is known of a product before it runs.
struct MatrixProductDesc {
  MatrixGeometry geometry;
  std::uint8_t a_flip, b_flip;  // 0x80 for INT8 a and for UINT8 b
  bool b_owned;
  bool rows_vary;           // zero points or scales have an element for each row
  bool ends_in_codes;       // else in sums, where nothing is rescaled
  bool ends_in_floats;      // always rescaled
  RescaleFunction rescale;  // the way from sums to the output
  std::size_t output_bytes;
  bool has_bias;
};

// Zero points are those of the product's codes: of a unsigned, or signed where a_is_signed(), of b signed.
struct MatrixParameters {
  // Of each column, up to the end of the last panel; b_zero_point is null where all are 0, the multiplier where none is
  // needed.
  const std::int32_t* b_zero_point;
  const float* column_multiplier;
  // Of each row; a_zero_point is null where all are 0. Where nothing is rescaled the first row's holds for all, and the
  // columns' multiplier is all of it.
  const std::int32_t* a_zero_point;
  const float* row_multiplier;
  const float* row_output_zero_point;
};

struct MatrixDispatch {
  const std::uint8_t* a;
  const std::uint8_t* b;  // codes, or what packed_b() made of them
  MatrixParameters parameters;
  std::uint8_t output_flip;
  const std::uint8_t* bias;
  std::uint8_t* output;
};

class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  MatrixProduct(const MatrixProduct&) = delete;
  MatrixProduct& operator=(const MatrixProduct&) = delete;

  // Whether sums leave through rescale.h, by parameters of rows and columns; else multipliers are of columns alone.
  virtual bool rescales() const = 0;
  // Whether INT8 a is read as it is, by products of signed codes.
  virtual bool a_is_signed() const = 0;
  // Elements of arrays of columns.
  std::size_t padded_columns() const { return panels_.columns(); }
  // How b is packed, at initialize where it is owned; null where it is streamed, which no owned one is.
  virtual const PackedMatrices* packed_b() const = 0;

  // Bytes of scratch memory that run() works in, 64-byte aligned.
  virtual std::size_t scratch_size() const = 0;
  virtual void run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const = 0;

  // What was chosen and why, one property a line.
  std::string describe() const;

 protected:
  // What a way tells of itself.
  struct Words {
    std::string algorithm, reason_for_b, reason_for_a, tile;
    bool a_in_place;
    std::int64_t participants, tasks;
  };

  MatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target);

  virtual Words words() const = 0;
  // column_sum = sum of the column's codes - k * b_zero_point, times a factor: of columns [first, first + count).
  void find_column_terms(const MatrixParameters& parameters, const std::int32_t* sums, std::int64_t first,
                         std::int64_t count, std::uint32_t factor, std::int32_t* terms) const noexcept;

  MatrixProductDesc desc_;
  const MatrixGeometry& geometry_;  // of the desc
  int offered_threads_;
  ExecutionTarget target_;  // with those of the threads that pay
  const GemmKernels& gemm_;
  const PackKernels& pack_;
  PanelSizes panels_;
};

std::unique_ptr<MatrixProduct> make_matrix_product(const MatrixProductDesc& desc, const ExecutionTarget& target);

// The two ways, of which it chooses.
std::unique_ptr<MatrixProduct> make_packed_matrix_product(const MatrixProductDesc& desc, const ExecutionTarget& target);
std::unique_ptr<MatrixProduct> make_streamed_matrix_product(const MatrixProductDesc& desc,
                                                            const ExecutionTarget& target);

}  // namespace dmlcpu
