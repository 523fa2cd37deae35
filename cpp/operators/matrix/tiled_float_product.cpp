#include "operators/matrix/tiled_float_product.h"

#include <algorithm>

#include "operators/buffer_layout.h"
#include "operators/float_tiles.h"
#include "operators/plan_words.h"
#include "operators/strides/channel_planes.h"
#include "operators/strides/element_rows.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kA = 0;

}  // namespace

TiledFloatProduct::TiledFloatProduct(OperatorDesc&& operator_desc, ExecutionTarget execution_target,
                                     const MatrixGeometry& geometry, std::size_t output, std::int64_t tile_columns,
                                     std::size_t own_size)
    : CompiledOperator(std::move(operator_desc), execution_target),
      geometry_(geometry),
      output_(output),
      tile_columns_(tile_columns),
      row_tiles_(divide_up(geometry.m, kFloatTileRows)),
      column_tiles_(divide_up(geometry.n, tile_columns)),
      tasks_(geometry.products() * row_tiles_ * column_tiles_) {
  BufferLayout own;
  own.take(own_size);
  a_values_ = own.take(geometry_.gathers_a() ? as_size(kFloatTileRows * kFloatBlockTerms) : 0, sizeof(float));
  sums_ = own.take(geometry_.stages_output() ? as_size(kFloatTileRows * tile_columns) : 0, sizeof(float));
  participant_size_ = own.size();
}

std::int64_t TiledFloatProduct::participants() const { return std::min<std::int64_t>(target().num_threads, tasks_); }

std::int64_t TiledFloatProduct::terms_from(std::int64_t k) const noexcept {
  return std::min(kFloatBlockTerms, geometry_.k - k);
}

std::string TiledFloatProduct::describe_tiles() const {
  return "tile: " + std::to_string(kFloatTileRows) + " rows, " + std::to_string(tile_columns_) + " columns, on " +
         counted(participants(), "thread");
}

void TiledFloatProduct::run(const TensorPointers& tensors) const {
  std::uint8_t* scratch = thread_scratch(temporary_size());
  parallel_for(as_size(tasks_), target().num_threads, [&](std::size_t task, int slot) noexcept {
    run_tile(tensors, static_cast<std::int64_t>(task), scratch + as_size(slot) * participant_size_);
  });
}

void TiledFloatProduct::run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept {
  const std::int64_t product = task / (row_tiles_ * column_tiles_);
  const auto index = geometry_.batch_index(product);
  const std::int64_t row = task / column_tiles_ % row_tiles_ * kFloatTileRows;
  const std::int64_t column = task % column_tiles_ * tile_columns_;
  const std::int64_t rows = std::min(kFloatTileRows, geometry_.m - row);
  const std::int64_t columns = std::min(tile_columns_, geometry_.n - column);
  const float* a =
      static_cast<const float*>(tensors[kA]) + MatrixGeometry::offset(geometry_.a, index) + row * geometry_.a.row;
  float* output = static_cast<float*>(tensors[output_]) + MatrixGeometry::offset(geometry_.output, index) +
                  row * geometry_.output.row + column * geometry_.output.column;
  auto* a_values = reinterpret_cast<float*>(own + a_values_);
  float* sums = geometry_.stages_output() ? reinterpret_cast<float*>(own + sums_) : output;
  const std::int64_t sums_row = geometry_.stages_output() ? columns : geometry_.output.row;
  for (std::int64_t k = 0, terms = 0; k < geometry_.k; k += terms) {
    terms = terms_from(k);
    const float* of_a = a + k * geometry_.a.column;
    if (geometry_.gathers_a()) {
      copy_rows(of_a, {geometry_.a.row, geometry_.a.column}, a_values, {terms, 1}, rows, terms);
    }
    FloatProductBlock block = {.a = geometry_.gathers_a() ? a_values : of_a,
                               .a_row_stride = as_size(geometry_.gathers_a() ? terms : geometry_.a.row),
                               .b = nullptr,
                               .b_row_stride = 0,
                               .m = as_size(rows),
                               .k = as_size(terms),
                               .n = as_size(columns),
                               .sums = sums,
                               .sums_row_stride = as_size(sums_row),
                               .begins = k == 0};
    accumulate(tensors, {product, k, column}, block, own);
  }
  if (geometry_.stages_output()) {
    scatter_pixels(*target().kernels().pack, sums, rows, columns, sizeof(float), output, geometry_.output.row,
                   geometry_.output.column);
  }
}

}  // namespace dmlcpu
