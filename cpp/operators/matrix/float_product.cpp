// FLOAT_PRODUCT: tensors a, b, output, FLOAT32: a product of matrices (tiled_float_product.h). Of graphs alone.
//
// A task packs a block of a panel of b (float_panels), into a level-1 cache, and meets it with its rows; a few rows
// read columns that are neighbours in place, and so do any rows where there are a few columns. Of a b whose rows are
// neighbours, as keys are that a transposition turns, one row of a is the one column that b's columns are multiplied
// by. A b that is owned is packed once, and its blocks are read where they lie.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "operators/matrix/float_panels.h"
#include "operators/matrix/tiled_float_product.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

// Packing reads and writes b once more: one row takes twice as long with it (768 x 768, 71 us in place of 36). Each row
// in place reads b again, so that 8 rows of a large b (2048 x 4096, avx2) take 5 ms packed and 7 in place.
constexpr std::int64_t kFewRows = 8;
// All rows of a meet as many columns in registers (kernels/float_product/columns.inl.h).
constexpr std::int64_t kFewColumns = 4;
// Of 64, 128 and 256 columns none is the fastest throughout where b is in a level-2 cache. A larger one is read in long
// runs, if rows are as few and runs as long as kernels/float_product/long_rows.inl.h wants: one by 2048 x 4096 takes
// 5.6 ms by 128 columns and 2.5 by 1024, whose sums a level-1 cache holds.
constexpr std::int64_t kColumnsInPlace = 128, kShortestRun = 512, kLongRun = 1024, kRowsOfLongRuns = 3;
constexpr std::int64_t kLargeElements = 1 << 17;

// A panel that has been packed once is read on and on: the longer its blocks, the fewer times a first tile begins to
// wait for memory and the others read and write sums. Here the tile's terms take 128 KiB, those of the panel as much.
constexpr std::int64_t kTermsOfTile = 1 << 15, kMostTerms = 512;

enum class BlocksOfB : std::uint8_t { packed_once, packed_by_tasks, in_place, turned_in_place };

BlocksOfB blocks_of_b(bool owned, const MatrixGeometry& geometry) {
  if (owned) return BlocksOfB::packed_once;
  if (geometry.m == 1 && geometry.b.row == 1 && geometry.b.column > 1 && !geometry.gathers_a()) {
    return BlocksOfB::turned_in_place;
  }
  const bool is_narrow = geometry.m < kFewRows || geometry.n <= kFewColumns;
  return is_narrow && geometry.b.column == 1 ? BlocksOfB::in_place : BlocksOfB::packed_by_tasks;
}

std::int64_t tile_columns(const OperatorDesc& desc, const MatrixGeometry& geometry, BlocksOfB blocks, int num_threads) {
  if (blocks == BlocksOfB::turned_in_place) return kColumnsInPlace;
  if (blocks != BlocksOfB::in_place) return kFloatPanelColumns;
  if (geometry.m > kRowsOfLongRuns || desc.tensor(kB).element_count() < kLargeElements) return kColumnsInPlace;
  // Tiles of much the same size, and at least one for each thread.
  const std::int64_t tiles = std::max(divide_up(geometry.n, kLongRun), divide_up(num_threads, geometry.products()));
  const std::int64_t columns = divide_up(divide_up(geometry.n, tiles), kColumnsInPlace) * kColumnsInPlace;
  return columns < kShortestRun ? kColumnsInPlace : columns;
}

class FloatProduct final : public TiledFloatProduct {
 public:
  FloatProduct(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const MatrixGeometry& geometry,
               BlocksOfB blocks, std::int64_t columns)
      : TiledFloatProduct(
            std::move(operator_desc), execution_target, geometry, kOutput, columns,
            blocks == BlocksOfB::packed_by_tasks ? as_size(kFloatBlockTerms * kFloatPanelColumns) * sizeof(float) : 0),
        blocks_(blocks),
        width_(float_panel_width(target().kernels())) {
    // A broadcast tensor can be of sizes that no memory has. An element becomes a row of a panel at most: 256 bytes.
    if (blocks == BlocksOfB::packed_once && desc().tensor(kB).element_count() > INT64_MAX / 1024) {
      throw std::invalid_argument(desc().type + ": b is too large to be packed");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: float32 product, k in order") +
           (blocks_ == BlocksOfB::packed_once       ? ", b packed once"
            : blocks_ == BlocksOfB::turned_in_place ? ", b's columns by a's row"
                                                    : "") +
           "\nkernel: " + kernel_words(target(), "float_product") + "\n" + describe_tiles();
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override;
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == kB ? as_size(geometry().matrices() * matrix_floats()) * sizeof(float)
                        : CompiledOperator::packed_owned_size(tensor);
  }
  std::vector<std::size_t> packing(std::size_t tensor) const override {
    if (tensor != kB) return CompiledOperator::packing(tensor);
    return {as_size(geometry().k), as_size(geometry().n), as_size(geometry().matrices()), as_size(width_)};
  }
  std::int64_t terms_from(std::int64_t k) const noexcept override;
  void accumulate(const TensorPointers& tensors, const Terms& terms, FloatProductBlock& block,
                  std::uint8_t* own) const noexcept override;

 private:
  std::int64_t matrix_floats() const { return float_panels_size(geometry().k, geometry().n, width_); }

  BlocksOfB blocks_;
  std::int64_t width_;  // of panels
};

std::int64_t FloatProduct::terms_from(std::int64_t k) const noexcept {
  if (geometry().gathers_a()) return TiledFloatProduct::terms_from(k);
  // A few columns need no block in a cache: whole rows of a, or of b turned, are the longest runs.
  if (blocks_ == BlocksOfB::turned_in_place) return geometry().k;
  if (blocks_ == BlocksOfB::in_place && geometry().n <= kFewColumns) return geometry().k;
  if (blocks_ != BlocksOfB::packed_once) return TiledFloatProduct::terms_from(k);
  if (width_ < kFloatPanelColumns) return std::min(narrow_panel_terms(geometry().m, geometry().k), geometry().k - k);
  // Two or three rows read a block of b once each, as no tile does: from the level-1 cache.
  const bool reads_again = geometry().m == 2 || geometry().m == 3;
  const std::int64_t terms = reads_again ? kFloatBlockTerms : kTermsOfTile / std::min(geometry().m, kFloatTileRows);
  return std::min(std::clamp(terms, kFloatBlockTerms, kMostTerms), geometry().k - k);
}

std::optional<AlignedBuffer> FloatProduct::pack_owned(std::size_t tensor, const void* data) const {
  if (tensor != kB) return std::nullopt;
  AlignedBuffer packed(packed_owned_size(kB));
  auto* panels = reinterpret_cast<float*>(packed.data());
  for (std::int64_t matrix = 0; matrix < geometry().matrices(); ++matrix) {
    const float* b = static_cast<const float*>(data) + geometry().offset_of_matrix(matrix);
    pack_float_panels(*target().kernels().pack, b, geometry().b, geometry().k, geometry().n, width_, panels);
    panels += matrix_floats();
  }
  return packed;
}

void FloatProduct::accumulate(const TensorPointers& tensors, const Terms& terms, FloatProductBlock& block,
                              std::uint8_t* own) const noexcept {
  const MatrixStrides& strides = geometry().b;
  const auto* b = static_cast<const float*>(tensors[kB]);
  if (blocks_ == BlocksOfB::packed_once) {
    b += geometry().matrix_of(terms.product) * matrix_floats() + terms.column * geometry().k;
    block.b = b + terms.k * width_;
    block.b_row_stride = as_size(width_);
    block.b_panel_stride = as_size(geometry().k * width_);
    target().kernels().float_product->accumulate(block);
    return;
  }
  b += MatrixGeometry::offset(strides, geometry().batch_index(terms.product)) + terms.column * strides.column;
  block.b = b + terms.k * strides.row;
  block.b_row_stride = as_size(strides.row);
  if (blocks_ == BlocksOfB::turned_in_place) {
    const float* row_of_a = std::exchange(block.a, block.b);
    block.a_row_stride = as_size(strides.column);
    block.b = row_of_a;
    block.b_row_stride = 1;
    block.m = std::exchange(block.n, 1);
    block.sums_row_stride = 1;
  }
  if (blocks_ == BlocksOfB::packed_by_tasks) {
    auto* panel = reinterpret_cast<float*>(own);
    pack_float_panel(*target().kernels().pack, block.b, strides, static_cast<std::int64_t>(block.k),
                     static_cast<std::int64_t>(block.n), kFloatPanelColumns, panel);
    block.b = panel;
    block.b_row_stride = as_size(kFloatPanelColumns);
    block.b_is_near = true;
  }
  target().kernels().float_product->accumulate(block);
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_product(OperatorDesc desc, ExecutionTarget target) {
  const MatrixGeometry geometry =
      matrix_geometry(desc, desc.tensor(kA), desc.tensor(kB), desc.tensor(kOutput), std::nullopt);
  const BlocksOfB blocks = blocks_of_b(desc.tensor(kB).owned, geometry);
  const std::int64_t columns = tile_columns(desc, geometry, blocks, target.num_threads);
  return std::make_unique<FloatProduct>(std::move(desc), target, geometry, blocks, columns);
}

}  // namespace dmlcpu
