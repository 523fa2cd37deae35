// The streamed way of a matrix product: few rows, and a b that is read once.
#include <algorithm>
#include <cstring>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_product.h"
#include "operators/matrix/matrix_results.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Columns of b that are packed at a time where it is streamed: some cache lines of each row.
constexpr std::int64_t kStreamedColumns = 256;

class StreamedMatrixProduct final : public MatrixProduct {
 public:
  StreamedMatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target)
      : MatrixProduct(desc, target), results_(desc_, pack_), blocks_(choose_blocks()), scratch_(lay_out_scratch()) {}

  bool rescales() const override { return true; }
  bool a_is_signed() const override { return false; }
  const PackedMatrices* packed_b() const override { return nullptr; }
  std::size_t scratch_size() const override { return scratch_.size; }
  void run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const override;

 private:
  // Columns of a strip, whose sums wait, and columns and k of a block that is packed.
  struct Blocks {
    std::int64_t strip_columns, packed_columns, k;
  };
  // Offsets into the scratch buffer, then into a participant's part of it.
  struct Scratch {
    std::size_t zeros, participants, size;
    std::size_t left, right, activation_sums, sums, column_sums, participant_size;
  };

  // The last one is of ones, for the sums of columns.
  std::int64_t rows() const { return geometry_.m + 1; }
  std::int64_t strips() const { return divide_up(geometry_.n, blocks_.strip_columns); }
  std::int64_t tasks() const { return geometry_.matrices() * strips(); }
  std::int64_t participants() const { return std::min<std::int64_t>(target_.num_threads, tasks()); }
  Blocks choose_blocks() const;
  Scratch lay_out_scratch();
  void run_strip(const MatrixDispatch& dispatch, std::int64_t matrix, const MatrixRegion& strip,
                 const std::int32_t* zeros, std::uint8_t* own) const noexcept;
  Words words() const override;

  MatrixResults results_;
  Blocks blocks_;
  Scratch scratch_;
};

// Sums of a strip wait in the level-2 cache. A packed block stays in the level-1 cache where few rows use it, else it
// has more k, for sums to be loaded and stored less often. It is of some rows of b, or of long columns where those are
// what is neighbours in memory.
StreamedMatrixProduct::Blocks StreamedMatrixProduct::choose_blocks() const {
  constexpr std::int64_t kFewRows = 8;
  const std::int64_t panel = static_cast<std::int64_t>(panels_.nr), step = static_cast<std::int64_t>(gemm_.kr);
  const CacheSizes caches = cache_sizes();
  const auto sums = static_cast<std::int64_t>(caches.level_2 / 4 / sizeof(std::int32_t)) / rows();
  const auto block = static_cast<std::int64_t>(geometry_.m <= kFewRows ? caches.level_1 / 2 : caches.level_2 / 8);
  const std::int64_t tasks = target_.num_threads == 1 ? 1 : target_.num_threads * 2;
  const std::int64_t columns = std::min(sums, divide_up(geometry_.n * geometry_.matrices(), tasks));
  const std::int64_t strip = std::clamp(divide_up(columns, panel) * panel, panel, panels_.count * panel);
  const std::int64_t packed =
      geometry_.b.column == 1 ? std::min(divide_up(kStreamedColumns, panel) * panel, strip) : panel;
  return {.strip_columns = strip,
          .packed_columns = packed,
          .k = std::clamp(block / packed / step * step, step, static_cast<std::int64_t>(panels_.k_padded))};
}

StreamedMatrixProduct::Scratch StreamedMatrixProduct::lay_out_scratch() {
  Scratch scratch{};
  const std::size_t elements = as_size(rows() * blocks_.strip_columns);
  BufferLayout own;
  scratch.left = own.take(as_size(rows()), as_size(blocks_.k));
  scratch.right = own.take(as_size(blocks_.packed_columns), as_size(blocks_.k));
  scratch.activation_sums = own.take(as_size(rows()), sizeof(std::int32_t));
  scratch.sums = own.take(elements, sizeof(std::int32_t));
  scratch.column_sums = own.take(as_size(blocks_.strip_columns), sizeof(std::int32_t));
  results_.take(own, elements);
  scratch.participant_size = own.size();

  BufferLayout all;
  scratch.zeros = all.take(as_size(blocks_.strip_columns), sizeof(std::int32_t));
  scratch.participants = all.take(as_size(participants()), scratch.participant_size);
  scratch.size = all.size();
  return scratch;
}

void StreamedMatrixProduct::run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const {
  auto* zeros = reinterpret_cast<std::int32_t*>(scratch + scratch_.zeros);
  std::fill_n(zeros, blocks_.strip_columns, 0);
  parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t matrix = index / strips(), column = index % strips() * blocks_.strip_columns;
    const std::int64_t columns = std::min(blocks_.strip_columns, geometry_.n - column);
    run_strip(dispatch, matrix, {geometry_.batch_index(matrix), 0, geometry_.m, column, columns}, zeros,
              scratch + scratch_.participants + as_size(slot) * scratch_.participant_size);
  });
}

void StreamedMatrixProduct::run_strip(const MatrixDispatch& dispatch, std::int64_t matrix, const MatrixRegion& strip,
                                      const std::int32_t* zeros, std::uint8_t* own) const noexcept {
  const StridedCodes a = {dispatch.a + MatrixGeometry::offset(geometry_.a, strip.index), geometry_.a.row,
                          geometry_.a.column, desc_.a_flip};
  const StridedCodes b = right_matrix(geometry_, dispatch.b, matrix, desc_.b_flip);
  const std::int64_t rows = geometry_.m + (dispatch.parameters.a_zero_point == nullptr ? 0 : 1);
  auto* activation_sums = reinterpret_cast<std::int32_t*>(own + scratch_.activation_sums);
  auto* sums = reinterpret_cast<std::int32_t*>(own + scratch_.sums);
  const std::int32_t* zero_point =
      dispatch.parameters.b_zero_point == nullptr ? nullptr : dispatch.parameters.b_zero_point + strip.first_column;
  for (std::int64_t k = 0; k < geometry_.k; k += blocks_.k) {
    const std::int64_t terms = std::min(blocks_.k, geometry_.k - k);
    const std::size_t padded = round_up(as_size(terms), gemm_.kr);
    pack_left(pack_, a, {0, geometry_.m, k, terms}, padded, own + scratch_.left);
    std::memset(own + scratch_.left + as_size(geometry_.m) * padded, 1, padded);
    if (zero_point != nullptr) {
      pack_.sum_rows({.a = own + scratch_.left,
                      .a_row_stride = padded,
                      .a_offsets = &kOnlySegment,
                      .m = as_size(geometry_.m),
                      .k = as_size(terms)},
                     activation_sums);
      activation_sums[geometry_.m] = 0;  // sums of columns are of the codes alone
    }
    for (std::int64_t column = 0; column < strip.columns; column += blocks_.packed_columns) {
      const std::int64_t columns = std::min(blocks_.packed_columns, strip.columns - column);
      pack_right(pack_, b, {k, terms, strip.first_column + column, columns}, panels_.nr, padded, own + scratch_.right);
      gemm_.multiply({.a = own + scratch_.left,
                      .a_row_stride = padded,
                      .b = own + scratch_.right,
                      .b_panel_stride = panels_.nr * padded,
                      .m = as_size(rows),
                      .n = as_size(columns),
                      .k = padded,
                      .offset = zeros,
                      .filter_zero_point = zero_point == nullptr ? nullptr : zero_point + column,
                      .activation_sum = activation_sums,
                      .output_row_stride = as_size(strip.columns),
                      .sums = sums + column,
                      .accumulates = k != 0});
    }
  }
  auto* column_sums = reinterpret_cast<std::int32_t*>(own + scratch_.column_sums);
  if (dispatch.parameters.a_zero_point != nullptr) {
    find_column_terms(dispatch.parameters, sums + geometry_.m * strip.columns, strip.first_column, strip.columns, 1,
                      column_sums);
  }
  results_.write_rescaled(dispatch, strip, sums, dispatch.parameters.a_zero_point == nullptr ? nullptr : column_sums,
                          own);
}

MatrixProduct::Words StreamedMatrixProduct::words() const {
  return {.algorithm = "b packed a block at a time and used up in cache",
          .reason_for_b = "streamed because b is not owned, and " + counted(geometry_.m, "row") +
                          " would not make up for packing it whole",
          .reason_for_a = "packed because products take a block of its terms at a time",
          .tile = counted(blocks_.strip_columns, "column") + ", packed " + std::to_string(blocks_.packed_columns) +
                  " by " + counted(blocks_.k, "term") + " at a time",
          .a_in_place = false,
          .participants = participants(),
          .tasks = tasks()};
}

}  // namespace

std::unique_ptr<MatrixProduct> make_streamed_matrix_product(const MatrixProductDesc& desc,
                                                            const ExecutionTarget& target) {
  return std::make_unique<StreamedMatrixProduct>(desc, target);
}

}  // namespace dmlcpu
