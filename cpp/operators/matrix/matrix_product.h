// The 8-bit matrix product under the matrix operators, in one of two ways:
//
//   packed     b is packed whole, once where it is owned, then tiles of rows meet blocks of columns
//   streamed   few rows and a b that is not owned: b is read once, a block of k at a time is packed into a cache and
//              used up there, while sums wait
//
// Sums leave as they are, as codes made in the product (gemm/gemm.h), or through rescale/rescale.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operators/matrix/matrix_geometry.h"
#include "operators/matrix/matrix_packing.h"
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
  const std::uint8_t* b;  // codes, or what pack() made of them
  MatrixParameters parameters;
  std::uint8_t output_flip;
  const std::uint8_t* bias;
  std::uint8_t* output;
};

class MatrixProduct {
 public:
  MatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target);

  // Whether sums leave through rescale.h, by parameters of rows and columns; else multipliers are of columns alone.
  bool rescales() const { return rescales_; }
  // Whether INT8 a is read as it is, by products of signed codes.
  bool a_is_signed() const { return a_in_place_ && desc_.a_flip != 0; }
  // Elements of arrays of columns.
  std::size_t padded_columns() const { return padded_columns_; }

  // All matrices of b, packed.
  std::size_t packed_size() const { return packed_size_; }
  // See CompiledOperator::packing. Several matrices are packed in the order that b has them in, whatever the batch.
  std::vector<std::size_t> packing() const;
  void pack(const std::uint8_t* b, std::uint8_t* packed) const;

  // Bytes of scratch memory that run() works in, 64-byte aligned.
  std::size_t scratch_size() const { return scratch_size_; }
  void run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const;

  // What was chosen and why, one property a line.
  std::string describe() const;

 private:
  // A part of one product's output.
  struct Region {
    std::array<std::int64_t, kBatchAxes> index;
    std::int64_t first_row, rows, first_column, columns;
  };
  // A matrix of b, packed, with its terms of columns.
  struct Right {
    const std::uint8_t* panels;
    const std::int32_t* offset;      // what the product begins with
    const std::int32_t* column_sum;  // for rescaling; null where all zero points of a are in the offset
  };

  std::string reason_for_a() const;
  std::string reason_for_b() const;
  bool is_bound_by_writing() const;
  void plan_packed();
  void plan_streamed();
  std::size_t panel_bytes() const { return k_padded_ * nr_; }
  StridedCodes right_of(const std::uint8_t* b, std::int64_t matrix) const;
  void pack_panels(const StridedCodes& b, std::int64_t first_panel, std::int64_t end_panel, std::uint8_t* packed,
                   const std::uint8_t* ones) const noexcept;
  void prepare_matrices(const MatrixDispatch& dispatch, std::int64_t first, std::int64_t count,
                        std::uint8_t* scratch) const;
  void find_column_terms(const MatrixDispatch& dispatch, const std::int32_t* sums, std::int64_t first,
                         std::int64_t count, std::int32_t* terms) const noexcept;
  void run_packed(const MatrixDispatch& dispatch, std::uint8_t* scratch) const;
  void run_tile(const MatrixDispatch& dispatch, const Right& right, const Region& tile,
                std::uint8_t* own) const noexcept;
  void run_streamed(const MatrixDispatch& dispatch, std::uint8_t* scratch) const;
  void run_strip(const MatrixDispatch& dispatch, std::int64_t matrix, const Region& strip, const std::int32_t* zeros,
                 std::uint8_t* own) const noexcept;
  void write_rescaled(const MatrixDispatch& dispatch, const Region& region, const std::int32_t* sums,
                      const std::int32_t* column_sum, std::uint8_t* own) const noexcept;
  std::uint8_t* output_of(const MatrixDispatch& dispatch, const Region& region) const noexcept;
  void scatter(const std::uint8_t* results, const Region& region, std::uint8_t* output) const noexcept;

  MatrixProductDesc desc_;
  MatrixGeometry geometry_;
  int offered_threads_;
  ExecutionTarget target_;  // with those of the threads that pay
  const GemmKernels& gemm_;
  const PackKernels& pack_;
  std::size_t nr_, k_padded_, padded_columns_;
  std::int64_t panels_;
  // direct_: the columns of the output are neighbours; shares_sets_: rows of a evict each other from the caches.
  bool streams_, rescales_, shares_sets_, a_in_place_, direct_;
  std::int64_t matrix_bytes_ = 0;                  // of one packed matrix
  std::size_t packed_size_ = 0, left_stride_ = 0;  // from a row of a packed tile to the next
  // Packed: rows of a tile, parts that its columns are divided into, and matrices that are packed at a time.
  std::int64_t tile_rows_ = 0, tiles_of_product_ = 0, splits_ = 1, matrices_at_once_ = 1;
  // Streamed: columns and k of a block that is packed.
  std::int64_t packed_columns_ = 0, block_k_ = 0;
  std::int64_t block_columns_ = 0;  // of one product or strip, a multiple of nr
  int participants_ = 1;
  // Offsets into the scratch buffer, then into a participant's part of it.
  std::size_t packed_ = 0, ones_ = 0, zeros_ = 0, terms_ = 0, participants_offset_ = 0, scratch_size_ = 0;
  std::size_t left_ = 0, right_ = 0, activation_sums_ = 0, sums_ = 0, column_sums_ = 0, results_ = 0, bias_ = 0,
              participant_size_ = 0;
};

}  // namespace dmlcpu
