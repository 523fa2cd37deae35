// The streamed way of a matrix product: few rows, and a b that is read once.
#include <algorithm>
#include <cstring>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_product.h"
#include "operators/sizes.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Columns of b that are packed at a time where it is streamed: some cache lines of each row.
constexpr std::int64_t kStreamedColumns = 256;
}  // namespace

void MatrixProduct::plan_streamed() {
  const std::int64_t panel = static_cast<std::int64_t>(nr_), step = static_cast<std::int64_t>(gemm_.kr);
  const std::int64_t rows = geometry_.m + 1;  // the last one is of ones, for the sums of columns
  // Sums of a strip wait in the level-2 cache. A packed block stays in the level-1 cache where few rows use it, else it
  // has more k, for sums to be loaded and stored less often. It is of some rows of b, or of long columns where those
  // are what is neighbours in memory.
  constexpr std::int64_t kFewRows = 8;
  const CacheSizes caches = cache_sizes();
  const auto sums = static_cast<std::int64_t>(caches.level_2 / 4 / sizeof(std::int32_t)) / rows;
  const auto block = static_cast<std::int64_t>(geometry_.m <= kFewRows ? caches.level_1 / 2 : caches.level_2 / 8);
  const std::int64_t tasks = target_.num_threads == 1 ? 1 : target_.num_threads * 2;
  const std::int64_t columns = std::min(sums, divide_up(geometry_.n * geometry_.matrices(), tasks));
  block_columns_ = std::clamp(divide_up(columns, panel) * panel, panel, panels_ * panel);
  packed_columns_ =
      geometry_.b.column == 1 ? std::min(divide_up(kStreamedColumns, panel) * panel, block_columns_) : panel;
  block_k_ = std::clamp(block / packed_columns_ / step * step, step, static_cast<std::int64_t>(k_padded_));
  participants_ = static_cast<int>(
      std::min<std::int64_t>(target_.num_threads, geometry_.matrices() * divide_up(geometry_.n, block_columns_)));

  const std::size_t elements = as_size(rows * block_columns_);
  BufferLayout own;
  left_ = own.take(as_size(rows), as_size(block_k_));
  right_ = own.take(as_size(packed_columns_), as_size(block_k_));
  activation_sums_ = own.take(as_size(rows), sizeof(std::int32_t));
  sums_ = own.take(elements, sizeof(std::int32_t));
  column_sums_ = own.take(as_size(block_columns_), sizeof(std::int32_t));
  results_ = own.take(direct_ ? 0 : elements, desc_.output_bytes);
  bias_ = own.take(desc_.has_bias && geometry_.bias.column != 1 ? elements : 0, desc_.output_bytes);
  participant_size_ = own.size();

  BufferLayout all;
  zeros_ = all.take(as_size(block_columns_), sizeof(std::int32_t));
  participants_offset_ = all.take(as_size(participants_), participant_size_);
  scratch_size_ = all.size();
}

void MatrixProduct::run_streamed(const MatrixDispatch& dispatch, std::uint8_t* scratch) const {
  std::memset(scratch + zeros_, 0, as_size(block_columns_) * sizeof(std::int32_t));
  const std::int64_t strips = divide_up(geometry_.n, block_columns_);
  parallel_for(as_size(geometry_.matrices() * strips), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t matrix = index / strips, column = index % strips * block_columns_;
    std::uint8_t* own = scratch + participants_offset_ + as_size(slot) * participant_size_;
    run_strip(dispatch, matrix,
              {geometry_.batch_index(matrix), 0, geometry_.m, column, std::min(block_columns_, geometry_.n - column)},
              reinterpret_cast<const std::int32_t*>(scratch + zeros_), own);
  });
}

void MatrixProduct::run_strip(const MatrixDispatch& dispatch, std::int64_t matrix, const Region& strip,
                              const std::int32_t* zeros, std::uint8_t* own) const noexcept {
  const StridedCodes a = {dispatch.a + MatrixGeometry::offset(geometry_.a, strip.index), geometry_.a.row,
                          geometry_.a.column, desc_.a_flip};
  const StridedCodes b = right_of(dispatch.b, matrix);
  const std::int64_t rows = geometry_.m + (dispatch.parameters.a_zero_point == nullptr ? 0 : 1);
  auto* activation_sums = reinterpret_cast<std::int32_t*>(own + activation_sums_);
  auto* sums = reinterpret_cast<std::int32_t*>(own + sums_);
  const std::int32_t* zero_point =
      dispatch.parameters.b_zero_point == nullptr ? nullptr : dispatch.parameters.b_zero_point + strip.first_column;
  for (std::int64_t k = 0; k < geometry_.k; k += block_k_) {
    const std::int64_t terms = std::min(block_k_, geometry_.k - k);
    const std::size_t padded = round_up(as_size(terms), gemm_.kr);
    pack_left(pack_, a, {0, geometry_.m, k, terms}, padded, own + left_);
    std::memset(own + left_ + as_size(geometry_.m) * padded, 1, padded);
    if (zero_point != nullptr) {
      pack_.sum_rows({.a = own + left_,
                      .a_row_stride = padded,
                      .a_offsets = &kOnlySegment,
                      .m = as_size(geometry_.m),
                      .k = as_size(terms)},
                     activation_sums);
      activation_sums[geometry_.m] = 0;  // sums of columns are of the codes alone
    }
    for (std::int64_t column = 0; column < strip.columns; column += packed_columns_) {
      const std::int64_t columns = std::min(packed_columns_, strip.columns - column);
      pack_right(pack_, b, {k, terms, strip.first_column + column, columns}, nr_, padded, own + right_);
      gemm_.multiply({.a = own + left_,
                      .a_row_stride = padded,
                      .b = own + right_,
                      .b_panel_stride = nr_ * padded,
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
  auto* column_sums = reinterpret_cast<std::int32_t*>(own + column_sums_);
  if (dispatch.parameters.a_zero_point != nullptr) {
    find_column_terms(dispatch, sums + geometry_.m * strip.columns, strip.first_column, strip.columns, column_sums);
  }
  write_rescaled(dispatch, strip, sums, dispatch.parameters.a_zero_point == nullptr ? nullptr : column_sums, own);
}

}  // namespace dmlcpu
