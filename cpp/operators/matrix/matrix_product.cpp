#include "operators/matrix/matrix_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/channel_planes.h"
#include "operators/element_rows.h"
#include "operators/element_width.h"
#include "operators/product_rate.h"
#include "operators/sizes.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Rows up to which a b that is not owned is streamed: more of them pay for packing it, sooner if it stays in the
// level-2 cache once packed.
constexpr std::int64_t kMostStreamedRows = 256, kMostStreamedRowsOfSmall = 32;
// Panels that are packed together: whole cache lines of each row of b, in as many streams as the caches follow.
constexpr std::int64_t kPanelsOfTask = 16;

std::int32_t wrapping(std::uint32_t value) { return static_cast<std::int32_t>(value); }

// Whether the rows that a tile of the kernel reads side by side lie in one set of the level-1 cache, and are more than
// its ways: each would be fetched again for each step of k. Sets repeat with pages, ways are at least 8.
bool share_a_cache_set(std::int64_t row_stride, std::int64_t rows) {
  constexpr std::int64_t kPage = 4096, kWays = 8;
  return row_stride != 0 && row_stride % kPage == 0 && rows > kWays;
}

ExecutionTarget with_threads_that_pay(const MatrixGeometry& geometry, const ExecutionTarget& target) {
  const auto rows = static_cast<double>(geometry.m), columns = static_cast<double>(geometry.n);
  const auto terms = static_cast<double>(geometry.k);
  const double cycles = estimated_product_cycles(static_cast<double>(geometry.products()) * rows * columns, terms,
                                                 static_cast<double>(geometry.matrices()) * terms * columns, target);
  return with_at_most(cycles / kLeastCyclesOfProduct, target);
}

}  // namespace

MatrixProduct::MatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target)
    : desc_(desc),
      geometry_(desc.geometry),
      offered_threads_(target.num_threads),
      target_(with_threads_that_pay(geometry_, target)),
      gemm_(*target.kernels().gemm),
      pack_(*target.kernels().pack),
      nr_(gemm_.nr),
      k_padded_(round_up(as_size(geometry_.k), gemm_.kr)),
      padded_columns_(round_up(as_size(geometry_.n), nr_)),
      panels_(static_cast<std::int64_t>(padded_columns_ / nr_)),
      streams_(!desc.b_owned && geometry_.products() == geometry_.matrices() &&
               geometry_.m <= (padded_columns_ > cache_sizes().level_2 / k_padded_ ? kMostStreamedRows
                                                                                   : kMostStreamedRowsOfSmall)),
      rescales_(streams_ || desc.rows_vary || desc.ends_in_floats),
      shares_sets_(share_a_cache_set(geometry_.a.row, std::min(geometry_.m, static_cast<std::int64_t>(gemm_.mr)))),
      a_in_place_(!streams_ && geometry_.a.column == 1 && (desc.a_flip == 0 || gemm_.multiplies_signed) &&
                  as_size(geometry_.k) == k_padded_ && !shares_sets_),
      direct_(geometry_.output.column == 1) {
  streams_ ? plan_streamed() : plan_packed();
}

// Whether sums, which no core's cache holds, take about as long to write as to compute. Each row of a tile is a stream
// of lines in pages of its own then, of which prefetchers follow some dozens.
bool MatrixProduct::is_bound_by_writing() const {
  constexpr double kFewCycles = 8.0;  // of a sum's products
  const double sums = as_number(geometry_.m) * as_number(geometry_.n);
  return direct_ && !rescales_ && desc_.output_bytes == sizeof(std::int32_t) && !gemm_.loads_rows_as_tiles &&
         sums * sizeof(std::int32_t) > static_cast<double>(cache_sizes().level_2 / 2) &&
         as_number(geometry_.k) < kFewCycles * gemm_.products_per_cycle;
}

void MatrixProduct::plan_packed() {
  BufferLayout matrix;
  matrix.take(padded_columns_, k_padded_);
  matrix.take(padded_columns_, sizeof(std::int32_t));
  matrix_bytes_ = static_cast<std::int64_t>(matrix.size());
  BufferLayout all_packed;
  all_packed.take(as_size(geometry_.matrices()), matrix.size());
  packed_size_ = all_packed.size();

  constexpr std::int64_t kMostTileRows = 256, kFewStreams = 24, kTileBytes = 1 << 17;
  const auto level_2 = static_cast<std::int64_t>(cache_sizes().level_2);
  const std::int64_t least = static_cast<std::int64_t>(gemm_.mr), products = geometry_.products();
  tile_rows_ = std::min(kMostTileRows, std::max(level_2 / 4 * 3 / static_cast<std::int64_t>(k_padded_), least));
  if (is_bound_by_writing()) tile_rows_ = std::min(tile_rows_, divide_up(kFewStreams, least) * least);
  tile_rows_ = divide_up(geometry_.m, divide_up(geometry_.m, tile_rows_));
  if (target_.num_threads > 1) {  // columns are divided first: rows of a are fewer bytes than panels of b
    const std::int64_t wanted = target_.num_threads * kTasksPerThread;
    splits_ = std::clamp<std::int64_t>(wanted / (products * divide_up(geometry_.m, tile_rows_)), 1, panels_);
    const std::int64_t parts = divide_up(wanted, products * splits_);
    tile_rows_ = std::min(tile_rows_, std::max(divide_up(geometry_.m, parts), std::min(least, geometry_.m)));
  }
  tiles_of_product_ = divide_up(geometry_.m, tile_rows_);
  participants_ = static_cast<int>(std::min<std::int64_t>(target_.num_threads, products * tiles_of_product_ * splits_));
  const std::int64_t panel = static_cast<std::int64_t>(nr_);
  block_columns_ = static_cast<std::int64_t>(padded_columns_);
  if (rescales_ || !direct_) {  // sums or codes wait in a cache
    block_columns_ = std::clamp(kTileBytes / 4 / tile_rows_ / panel * panel, panel, block_columns_);
  }
  matrices_at_once_ = desc_.b_owned ? geometry_.matrices()
                                    : std::clamp<std::int64_t>(level_2 / 2 / matrix_bytes_, 1, geometry_.matrices());

  const std::size_t rows = as_size(tile_rows_), elements = as_size(tile_rows_ * block_columns_);
  BufferLayout own;
  left_stride_ = k_padded_ + (share_a_cache_set(static_cast<std::int64_t>(k_padded_), least) ? kCacheLine : 0);
  left_ = own.take(a_in_place_ ? 0 : rows, left_stride_);
  activation_sums_ = own.take(rows, sizeof(std::int32_t));
  sums_ = own.take(rescales_ ? elements : 0, sizeof(std::int32_t));
  results_ = own.take(direct_ ? 0 : elements, desc_.output_bytes);
  bias_ = own.take(desc_.has_bias && geometry_.bias.column != 1 ? elements : 0, desc_.output_bytes);
  participant_size_ = own.size();

  BufferLayout all;
  packed_ = all.take(desc_.b_owned ? 0 : as_size(matrices_at_once_), matrix.size());
  ones_ = all.take(desc_.b_owned ? 0 : k_padded_);
  zeros_ = all.take(rescales_ ? padded_columns_ : 0, sizeof(std::int32_t));
  terms_ = all.take(as_size(matrices_at_once_) * padded_columns_, sizeof(std::int32_t));
  participants_offset_ = all.take(as_size(participants_), participant_size_);
  scratch_size_ = all.size();
}

StridedCodes MatrixProduct::right_of(const std::uint8_t* b, std::int64_t matrix) const {
  const std::int64_t product = matrix * (geometry_.products() / geometry_.matrices());
  return {b + MatrixGeometry::offset(geometry_.b, geometry_.batch_index(product)), geometry_.b.row, geometry_.b.column,
          desc_.b_flip};
}

// Packs panels of one matrix and sums their columns, by a row of ones.
void MatrixProduct::pack_panels(const StridedCodes& b, std::int64_t first_panel, std::int64_t end_panel,
                                std::uint8_t* packed, const std::uint8_t* ones) const noexcept {
  const std::int64_t first = first_panel * static_cast<std::int64_t>(nr_);
  const std::int64_t columns = std::min(end_panel * static_cast<std::int64_t>(nr_), geometry_.n) - first;
  std::uint8_t* panels = packed + as_size(first_panel) * panel_bytes();
  pack_right(pack_, b, {0, geometry_.k, first, columns}, nr_, k_padded_, panels);
  alignas(kAlignment) constexpr std::int32_t kZeros[kPanelsOfTask * 64] = {};
  auto* sums = reinterpret_cast<std::int32_t*>(packed + padded_columns_ * k_padded_) + first;
  gemm_.multiply({.a = ones,
                  .a_row_stride = k_padded_,
                  .b = panels,
                  .b_panel_stride = panel_bytes(),
                  .m = 1,
                  .n = as_size(columns),
                  .k = k_padded_,
                  .offset = kZeros,
                  .sums = sums});
}

std::vector<std::size_t> MatrixProduct::packing() const {
  return {nr_, k_padded_, padded_columns_, packed_size_, desc_.b_flip, as_size(geometry_.matrices())};
}

void MatrixProduct::pack(const std::uint8_t* b, std::uint8_t* packed) const {
  const std::vector<std::uint8_t> ones(k_padded_, 1);
  for (std::int64_t matrix = 0; matrix < geometry_.matrices(); ++matrix) {
    for (std::int64_t panel = 0; panel < panels_; panel += kPanelsOfTask) {
      pack_panels(right_of(b, matrix), panel, std::min(panel + kPanelsOfTask, panels_), packed + matrix * matrix_bytes_,
                  ones.data());
    }
  }
}

// column_sum = sum of the column's codes - k * b_zero_point; where one zero point of a holds for all rows, what it adds
// to every row instead: -a_zero_point * column_sum.
void MatrixProduct::find_column_terms(const MatrixDispatch& dispatch, const std::int32_t* sums, std::int64_t first,
                                      std::int64_t count, std::int32_t* terms) const noexcept {
  const auto k = static_cast<std::uint32_t>(geometry_.k);
  const bool by_row = desc_.rows_vary || streams_;
  const std::uint32_t factor = by_row ? 1U
                               : dispatch.parameters.a_zero_point == nullptr
                                   ? 0U
                                   : 0U - static_cast<std::uint32_t>(dispatch.parameters.a_zero_point[0]);
  for (std::int64_t column = 0; column < count; ++column) {
    std::uint32_t sum = static_cast<std::uint32_t>(sums[column]);
    if (dispatch.parameters.b_zero_point != nullptr)
      sum -= k * static_cast<std::uint32_t>(dispatch.parameters.b_zero_point[first + column]);
    terms[column] = wrapping(factor * sum);
  }
}

// Packs matrices [first, first + count) where they are not, and finds their terms of columns.
void MatrixProduct::prepare_matrices(const MatrixDispatch& dispatch, std::int64_t first, std::int64_t count,
                                     std::uint8_t* scratch) const {
  auto* terms = reinterpret_cast<std::int32_t*>(scratch + terms_);
  const auto sums_of = [&](const std::uint8_t* packed) {
    return reinterpret_cast<const std::int32_t*>(packed + padded_columns_ * k_padded_);
  };
  if (desc_.b_owned) {
    for (std::int64_t i = 0; i < count; ++i) {
      find_column_terms(dispatch, sums_of(dispatch.b + (first + i) * matrix_bytes_), 0, geometry_.n,
                        terms + as_size(i) * padded_columns_);
    }
    return;
  }
  std::memset(scratch + ones_, 1, k_padded_);
  const std::int64_t tasks = divide_up(panels_, kPanelsOfTask);
  parallel_for(as_size(count * tasks), target_.num_threads, [&](std::size_t task, int) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t i = index / tasks, panel = index % tasks * kPanelsOfTask;
    const std::int64_t end = std::min(panel + kPanelsOfTask, panels_);
    std::uint8_t* packed = scratch + packed_ + i * matrix_bytes_;
    pack_panels(right_of(dispatch.b, first + i), panel, end, packed, scratch + ones_);
    const std::int64_t column = panel * static_cast<std::int64_t>(nr_);
    const std::int64_t columns = std::min(end * static_cast<std::int64_t>(nr_), geometry_.n) - column;
    find_column_terms(dispatch, sums_of(packed) + column, column, columns,
                      terms + as_size(i) * padded_columns_ + column);
  });
}

void MatrixProduct::run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const {
  streams_ ? run_streamed(dispatch, scratch) : run_packed(dispatch, scratch);
}

void MatrixProduct::run_packed(const MatrixDispatch& dispatch, std::uint8_t* scratch) const {
  if (rescales_) std::memset(scratch + zeros_, 0, padded_columns_ * sizeof(std::int32_t));
  const std::int64_t repeats = geometry_.products() / geometry_.matrices();
  const std::int64_t tasks_of_product = tiles_of_product_ * splits_;
  for (std::int64_t first = 0; first < geometry_.matrices(); first += matrices_at_once_) {
    const std::int64_t count = std::min(matrices_at_once_, geometry_.matrices() - first);
    prepare_matrices(dispatch, first, count, scratch);
    const std::uint8_t* packed = desc_.b_owned ? dispatch.b + first * matrix_bytes_ : scratch + packed_;
    const auto* terms = reinterpret_cast<const std::int32_t*>(scratch + terms_);
    const auto* zeros = reinterpret_cast<const std::int32_t*>(scratch + zeros_);
    parallel_for(as_size(count * repeats * tasks_of_product), target_.num_threads,
                 [&](std::size_t task, int slot) noexcept {
                   const auto index = static_cast<std::int64_t>(task);
                   const std::int64_t product = index / tasks_of_product, of_product = index % tasks_of_product;
                   const std::int64_t first_row = of_product / splits_ * tile_rows_, split = of_product % splits_;
                   const std::int64_t first_column = panels_ * split / splits_ * static_cast<std::int64_t>(nr_);
                   const std::int64_t end_column =
                       std::min(panels_ * (split + 1) / splits_ * static_cast<std::int64_t>(nr_), geometry_.n);
                   const std::int64_t matrix = product / repeats;
                   const std::int32_t* of_matrix = terms + as_size(matrix) * padded_columns_;
                   const Right right = desc_.rows_vary ? Right{packed + matrix * matrix_bytes_, zeros, of_matrix}
                                                       : Right{packed + matrix * matrix_bytes_, of_matrix, nullptr};
                   run_tile(dispatch, right,
                            {geometry_.batch_index(first * repeats + product), first_row,
                             std::min(tile_rows_, geometry_.m - first_row), first_column, end_column - first_column},
                            scratch + participants_offset_ + as_size(slot) * participant_size_);
                 });
  }
}

void MatrixProduct::run_tile(const MatrixDispatch& dispatch, const Right& right, const Region& tile,
                             std::uint8_t* own) const noexcept {
  const std::uint8_t* a = dispatch.a + MatrixGeometry::offset(geometry_.a, tile.index);
  const std::uint8_t* left = own + left_;
  std::size_t row_stride = left_stride_;
  if (a_in_place_) {
    left = a + tile.first_row * geometry_.a.row;
    row_stride = as_size(geometry_.a.row);
  } else {
    pack_left(pack_, {a, geometry_.a.row, geometry_.a.column, desc_.a_flip},
              {tile.first_row, tile.rows, 0, geometry_.k}, row_stride, own + left_);
  }
  auto* activation_sums = reinterpret_cast<std::int32_t*>(own + activation_sums_);
  if (dispatch.parameters.b_zero_point != nullptr) {
    pack_.sum_rows({.a = left,
                    .a_row_stride = row_stride,
                    .a_offsets = &kOnlySegment,
                    .m = as_size(tile.rows),
                    .k = as_size(geometry_.k),
                    .a_is_signed = a_is_signed()},
                   activation_sums);
  }
  for (std::int64_t done = 0; done < tile.columns; done += block_columns_) {
    Region block = tile;
    block.first_column += done;
    block.columns = std::min(block_columns_, tile.columns - done);
    std::uint8_t* output = output_of(dispatch, block);
    const bool in_place = direct_ && !rescales_;
    std::uint8_t* results = rescales_ ? own + sums_ : in_place ? output : own + results_;
    const bool ends_in_sums = rescales_ || !desc_.ends_in_codes;
    const std::size_t column = as_size(block.first_column);
    gemm_.multiply({.a = left,
                    .a_row_stride = row_stride,
                    .b = right.panels + column * k_padded_,
                    .b_panel_stride = panel_bytes(),
                    .m = as_size(block.rows),
                    .n = as_size(block.columns),
                    .k = k_padded_,
                    .offset = right.offset + column,
                    .multiplier = ends_in_sums ? nullptr : dispatch.parameters.column_multiplier + column,
                    .filter_zero_point = dispatch.parameters.b_zero_point == nullptr
                                             ? nullptr
                                             : dispatch.parameters.b_zero_point + column,
                    .activation_sum = activation_sums,
                    .output_zero_point = ends_in_sums ? 0.0F : dispatch.parameters.row_output_zero_point[0],
                    .flip = dispatch.output_flip,
                    .output = ends_in_sums ? nullptr : results,
                    .output_row_stride = as_size(in_place ? geometry_.output.row : block.columns),
                    .sums = ends_in_sums ? reinterpret_cast<std::int32_t*>(results) : nullptr,
                    .a_is_signed = a_is_signed()});
    if (rescales_) {
      write_rescaled(dispatch, block, reinterpret_cast<const std::int32_t*>(results),
                     right.column_sum == nullptr ? nullptr : right.column_sum + column, own);
    } else if (!in_place) {
      scatter(results, block, output);
    }
  }
}

std::uint8_t* MatrixProduct::output_of(const MatrixDispatch& dispatch, const Region& region) const noexcept {
  return dispatch.output +
         static_cast<std::int64_t>(desc_.output_bytes) *
             (MatrixGeometry::offset(geometry_.output, region.index) + region.first_row * geometry_.output.row +
              region.first_column * geometry_.output.column);
}

// Rows of sums that follow each other become a region of the output.
void MatrixProduct::write_rescaled(const MatrixDispatch& dispatch, const Region& region, const std::int32_t* sums,
                                   const std::int32_t* column_sum, std::uint8_t* own) const noexcept {
  const auto bytes = static_cast<std::int64_t>(desc_.output_bytes);
  const std::uint8_t* bias = nullptr;
  std::size_t bias_row_stride = as_size(geometry_.bias.row);
  if (desc_.has_bias) {
    const MatrixStrides& strides = geometry_.bias;
    bias = dispatch.bias + bytes * (MatrixGeometry::offset(strides, region.index) + region.first_row * strides.row +
                                    region.first_column * strides.column);
    if (strides.column != 1) {
      const std::int64_t rows = strides.row == 0 ? 1 : region.rows;  // one that repeats is gathered once
      with_element_of(desc_.output_bytes, [&]<class Element>(Element) {
        copy_rows(reinterpret_cast<const Element*>(bias), {strides.row, strides.column},
                  reinterpret_cast<Element*>(own + bias_), {region.columns, 1}, rows, region.columns);
      });
      bias = own + bias_;
      bias_row_stride = strides.row == 0 ? 0 : as_size(region.columns);
    }
  }
  const bool corrects = column_sum != nullptr && dispatch.parameters.a_zero_point != nullptr;
  std::uint8_t* output = output_of(dispatch, region);
  const auto of_rows = [&](const float* values) { return values == nullptr ? nullptr : values + region.first_row; };
  desc_.rescale({.sums = sums,
                 .sums_row_stride = as_size(region.columns),
                 .m = as_size(region.rows),
                 .n = as_size(region.columns),
                 .row_zero_point = corrects ? dispatch.parameters.a_zero_point + region.first_row : nullptr,
                 .column_sum = corrects ? column_sum : nullptr,
                 .row_multiplier = of_rows(dispatch.parameters.row_multiplier),
                 .column_multiplier = dispatch.parameters.column_multiplier == nullptr
                                          ? nullptr
                                          : dispatch.parameters.column_multiplier + region.first_column,
                 .row_output_zero_point = of_rows(dispatch.parameters.row_output_zero_point),
                 .flip = dispatch.output_flip,
                 .bias = bias,
                 .bias_row_stride = bias_row_stride,
                 .output = direct_ ? output : own + results_,
                 .output_row_stride = as_size(direct_ ? geometry_.output.row : region.columns)});
  if (!direct_) scatter(own + results_, region, output);
}

// Results whose columns follow each other, to an output where they do not.
void MatrixProduct::scatter(const std::uint8_t* results, const Region& region, std::uint8_t* output) const noexcept {
  scatter_pixels(pack_, results, region.rows, region.columns, desc_.output_bytes, output, geometry_.output.row,
                 geometry_.output.column);
}

}  // namespace dmlcpu
