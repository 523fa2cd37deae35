// FLOAT_PRODUCT: tensors a, b, output, FLOAT32: a product of matrices, every sum a chain of fused multiply-adds with k
// ascending (kernels/float_product), begun at 0. Of graphs alone.
//
// A task is a tile of rows and columns. It packs a block of a panel of b (float_panels), into a level-1 cache, and
// meets it with its rows; a few rows read columns that are neighbours in place. A b that is owned is packed once, and
// its blocks are read where they lie.
#include <algorithm>
#include <stdexcept>

#include "operators/buffer_layout.h"
#include "operators/matrix/float_panels.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

constexpr std::int64_t kTileRows = 128, kColumnsInPlace = 128, kBlockTerms = 128, kFewRows = 8;

class FloatProduct final : public CompiledOperator {
 public:
  FloatProduct(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(matrix_geometry(desc(), desc().tensor(kA), desc().tensor(kB), desc().tensor(kOutput), std::nullopt)),
        owned_(desc().tensor(kB).owned),
        row_tiles_(divide_up(geometry_.m, kTileRows)),
        column_tiles_(divide_up(geometry_.n, tile_columns())),
        tasks_(geometry_.products() * row_tiles_ * column_tiles_) {
    // A broadcast tensor can be of sizes that no memory has. An element becomes a row of a panel at most: 256 bytes.
    if (owned_ && desc().tensor(kB).element_count() > INT64_MAX / 1024) {
      throw std::invalid_argument(desc().type + ": b is too large to be packed");
    }
    BufferLayout own;
    own.take(packs_b() ? as_size(kBlockTerms * kFloatPanelColumns) : 0, sizeof(float));
    a_values_ = own.take(packs_a() ? as_size(kTileRows * kBlockTerms) : 0, sizeof(float));
    sums_ = own.take(stages_sums() ? as_size(kTileRows * tile_columns()) : 0, sizeof(float));
    participant_size_ = own.size();
  }

  std::size_t temporary_size() const override { return as_size(participants()) * participant_size_; }
  std::string describe() const override {
    return std::string("algorithm: float32 product, k in order") + (owned_ ? ", b packed once" : "") +
           "\nkernel: " + kernel_words(target(), "float_product") + "\ntile: " + std::to_string(kTileRows) + " rows, " +
           std::to_string(tile_columns()) + " columns, on " + counted(participants(), "thread");
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override;
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == kB ? as_size(geometry_.matrices() * matrix_floats()) * sizeof(float)
                        : CompiledOperator::packed_owned_size(tensor);
  }
  std::vector<std::size_t> packing(std::size_t tensor) const override {
    if (tensor != kB) return CompiledOperator::packing(tensor);
    if (geometry_.matrices() != 1) return {};
    return {as_size(geometry_.k), as_size(geometry_.n)};
  }

  void run(const TensorPointers& tensors) const override {
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(as_size(tasks_), target().num_threads, [&](std::size_t task, int slot) noexcept {
      run_tile(tensors, static_cast<std::int64_t>(task), scratch + as_size(slot) * participant_size_);
    });
  }

 private:
  std::int64_t participants() const { return std::min<std::int64_t>(target().num_threads, tasks_); }
  bool packs_b() const { return !owned_ && (geometry_.m >= kFewRows || geometry_.b.column != 1); }
  std::int64_t tile_columns() const { return owned_ || packs_b() ? kFloatPanelColumns : kColumnsInPlace; }
  std::int64_t matrix_floats() const { return float_panels_size(geometry_.k, geometry_.n); }
  bool packs_a() const { return geometry_.a.column != 1 && geometry_.k != 1; }
  bool stages_sums() const { return geometry_.output.column != 1 && geometry_.n != 1; }
  void run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept;

  MatrixGeometry geometry_;
  bool owned_;  // b
  std::int64_t row_tiles_, column_tiles_, tasks_;
  std::size_t a_values_ = 0, sums_ = 0, participant_size_ = 0;
};

// rows x columns elements to rows of neighbours.
void gather(const float* source, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
            std::int64_t columns, float* target, std::int64_t target_row_stride) noexcept {
  for (std::int64_t row = 0; row < rows; ++row, source += row_stride, target += target_row_stride) {
    for (std::int64_t column = 0; column < columns; ++column) target[column] = source[column * column_stride];
  }
}

std::optional<AlignedBuffer> FloatProduct::pack_owned(std::size_t tensor, const void* data) const {
  if (tensor != kB) return std::nullopt;
  AlignedBuffer packed(packed_owned_size(kB));
  auto* panels = reinterpret_cast<float*>(packed.data());
  for (std::int64_t matrix = 0; matrix < geometry_.matrices(); ++matrix) {
    const auto index = geometry_.batch_index(matrix * (geometry_.products() / geometry_.matrices()));
    const float* b = static_cast<const float*>(data) + MatrixGeometry::offset(geometry_.b, index);
    pack_float_panels(*target().kernels().pack, b, geometry_.b, geometry_.k, geometry_.n, panels);
    panels += matrix_floats();
  }
  return packed;
}

void FloatProduct::run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept {
  const std::int64_t product = task / (row_tiles_ * column_tiles_);
  const auto index = geometry_.batch_index(product);
  const std::int64_t row = task / column_tiles_ % row_tiles_ * kTileRows;
  const std::int64_t column = task % column_tiles_ * tile_columns();
  const std::int64_t rows = std::min(kTileRows, geometry_.m - row);
  const std::int64_t columns = std::min(tile_columns(), geometry_.n - column);
  const float* a =
      static_cast<const float*>(tensors[kA]) + MatrixGeometry::offset(geometry_.a, index) + row * geometry_.a.row;
  const float* b = static_cast<const float*>(tensors[kB]);
  b += owned_ ? geometry_.matrix_of(product) * matrix_floats() + column * geometry_.k
              : MatrixGeometry::offset(geometry_.b, index) + column * geometry_.b.column;
  const std::int64_t b_row = owned_ ? kFloatPanelColumns : geometry_.b.row;
  float* output = static_cast<float*>(tensors[kOutput]) + MatrixGeometry::offset(geometry_.output, index) +
                  row * geometry_.output.row + column * geometry_.output.column;
  auto *b_values = reinterpret_cast<float*>(own), *a_values = reinterpret_cast<float*>(own + a_values_);
  float* sums = stages_sums() ? reinterpret_cast<float*>(own + sums_) : output;
  const std::int64_t sums_row = stages_sums() ? columns : geometry_.output.row;
  for (std::int64_t k = 0; k < geometry_.k; k += kBlockTerms) {
    const std::int64_t terms = std::min(kBlockTerms, geometry_.k - k);
    const float* of_b = b + k * b_row;
    if (packs_b()) pack_float_panel(*target().kernels().pack, of_b, geometry_.b, terms, columns, b_values);
    const float* of_a = a + k * geometry_.a.column;
    if (packs_a()) gather(of_a, geometry_.a.row, geometry_.a.column, rows, terms, a_values, terms);
    target().kernels().float_product->accumulate({.a = packs_a() ? a_values : of_a,
                                                  .a_row_stride = as_size(packs_a() ? terms : geometry_.a.row),
                                                  .b = packs_b() ? b_values : of_b,
                                                  .b_row_stride = as_size(packs_b() ? kFloatPanelColumns : b_row),
                                                  .m = as_size(rows),
                                                  .k = as_size(terms),
                                                  .n = as_size(columns),
                                                  .sums = sums,
                                                  .sums_row_stride = as_size(sums_row),
                                                  .begins = k == 0});
  }
  for (std::int64_t i = 0; stages_sums() && i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      output[i * geometry_.output.row + j * geometry_.output.column] = sums[i * sums_row + j];
    }
  }
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_product(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatProduct>(std::move(desc), target);
}

}  // namespace dmlcpu
