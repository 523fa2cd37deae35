// QUANTIZED_BLOCK_PRODUCT: a product of a FLOAT32 matrix, whose rows are quantized by blocks, and a coded one
// (coded_matrix.h): integers within a block, floats from block to block (kernels/block_product). Of graphs alone.
//
//   for each row of a (in parallel):                                   quantize its blocks
//   for each tile of up to 128 rows and 64 columns (in parallel):      multiply
#include <algorithm>
#include <stdexcept>

#include "operators/buffer_layout.h"
#include "operators/matrix/coded_matrix.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "operators/strides/element_rows.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kPanelColumns = kCodedPanelColumns;
// A panel comes from memory once for so many rows: those after the first find it in the level-2 cache, where k of 4096
// take 128 KiB of 4 bits. Where the output is staged, the rows' sums take 32 KiB.
constexpr std::int64_t kTileRows = 128;
// Blocks are a multiple of what a kernel writes of a row at a time.
constexpr std::int64_t kBlockStep = 16;

class QuantizedBlockProduct final : public OfCodedMatrix<CompiledOperator> {
 public:
  QuantizedBlockProduct(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const CodedMatrix& coded_matrix)
      : OfCodedMatrix(coded_matrix, std::move(operator_desc), execution_target),
        geometry_(matrix().geometry(desc())),
        row_tiles_(divide_up(geometry_.m, kTileRows)),
        tasks_(geometry_.products() * row_tiles_ * matrix().panels()) {
    if (matrix().block_size() % kBlockStep != 0 || as_size(matrix().block_size()) > kMostBlockTerms) {
      throw std::invalid_argument(desc().type + ": blocks are of 16 to 256 terms, a multiple of 16");
    }
    const auto rows = as_size(geometry_.products() * geometry_.m), blocks = as_size(matrix().blocks());
    BufferLayout layout;
    codes_ = layout.take(rows, blocks * as_size(matrix().block_size()));
    scales_ = layout.take(rows, blocks * sizeof(float));
    sums_ = layout.take(rows, blocks * sizeof(std::int32_t));
    participants_ = layout.size();
    BufferLayout own;
    gathered_ = own.take(geometry_.gathers_a() ? as_size(geometry_.k) : 0, sizeof(float));
    staged_ = own.take(geometry_.stages_output() ? as_size(kTileRows * kPanelColumns) : 0, sizeof(float));
    participant_size_ = own.size();
    layout.take(as_size(participants()), participant_size_);
    temporary_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return temporary_size_; }
  std::string describe() const override {
    return "algorithm: rows quantized by " + counted(matrix().blocks(), "block") + ", integer product with b of " +
           std::to_string(matrix().bits()) +
           " bits, float32 from block to block\nkernel: " + kernel_words(target(), "block_product") +
           "\ntile: " + std::to_string(kTileRows) + " rows, " + std::to_string(kPanelColumns) + " columns, on " +
           counted(participants(), "thread");
  }

 protected:
  void run(const TensorPointers& tensors) const override;

 private:
  std::int64_t participants() const {
    return std::min<std::int64_t>(target().num_threads, std::max(tasks_, geometry_.products() * geometry_.m));
  }
  void quantize_row(const float* a, std::int64_t row, std::uint8_t* scratch, std::uint8_t* own) const noexcept;
  void multiply_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* scratch,
                     std::uint8_t* own) const noexcept;

  MatrixGeometry geometry_;
  std::int64_t row_tiles_, tasks_;
  // Of the scratch memory: of all rows the codes, and of their blocks the scales and sums.
  std::size_t codes_ = 0, scales_ = 0, sums_ = 0, participants_ = 0;
  std::size_t gathered_ = 0, staged_ = 0, participant_size_ = 0, temporary_size_ = 0;
};

void QuantizedBlockProduct::run(const TensorPointers& tensors) const {
  std::uint8_t* scratch = thread_scratch(temporary_size());
  const auto own = [&](int slot) { return scratch + participants_ + as_size(slot) * participant_size_; };
  const auto* a = static_cast<const float*>(tensors[kCodedA]);
  parallel_for(
      as_size(geometry_.products() * geometry_.m), target().num_threads,
      [&](std::size_t row, int slot) noexcept { quantize_row(a, static_cast<std::int64_t>(row), scratch, own(slot)); });
  parallel_for(as_size(tasks_), target().num_threads, [&](std::size_t task, int slot) noexcept {
    multiply_tile(tensors, static_cast<std::int64_t>(task), scratch, own(slot));
  });
}

// Of all products'.
void QuantizedBlockProduct::quantize_row(const float* a, std::int64_t row, std::uint8_t* scratch,
                                         std::uint8_t* own) const noexcept {
  const auto index = geometry_.batch_index(row / geometry_.m);
  a += MatrixGeometry::offset(geometry_.a, index) + row % geometry_.m * geometry_.a.row;
  if (geometry_.gathers_a()) {
    auto* gathered = reinterpret_cast<float*>(own + gathered_);
    copy_rows(a, {0, geometry_.a.column}, gathered, {0, 1}, 1, geometry_.k);
    a = gathered;
  }
  const std::size_t first = as_size(row * matrix().blocks()), block = as_size(matrix().block_size());
  target().kernels().block_product->quantize(
      {.a = a,
       .k = as_size(geometry_.k),
       .block = block,
       .codes = reinterpret_cast<std::int8_t*>(scratch + codes_) + first * block,
       .scale = reinterpret_cast<float*>(scratch + scales_) + first,
       .negative_sum = reinterpret_cast<std::int32_t*>(scratch + sums_) + first});
}

void QuantizedBlockProduct::multiply_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* scratch,
                                          std::uint8_t* own) const noexcept {
  const std::int64_t panel = task % matrix().panels(), tile = task / matrix().panels();
  const std::int64_t product = tile / row_tiles_, row = tile % row_tiles_ * kTileRows;
  const std::int64_t rows = std::min(kTileRows, geometry_.m - row), column = panel * kPanelColumns;
  const std::int64_t columns = std::min(kPanelColumns, geometry_.n - column);
  const MatrixStrides& strides = geometry_.output;
  float* output = static_cast<float*>(tensors[kCodedOutput]) +
                  MatrixGeometry::offset(strides, geometry_.batch_index(product)) + row * strides.row +
                  column * strides.column;
  float* sums = geometry_.stages_output() ? reinterpret_cast<float*>(own + staged_) : output;
  const std::int64_t sums_row = geometry_.stages_output() ? columns : strides.row;
  const std::size_t first = as_size((product * geometry_.m + row) * matrix().blocks());
  const std::size_t block = as_size(matrix().block_size());
  const auto of_panel = [&](std::size_t tensor) { return as_size(panel) * matrix().panel_elements(tensor); };
  const BlockProductKernels& kernels = *target().kernels().block_product;
  const auto multiply = matrix().bits() == 4 ? kernels.multiply_4_bits : kernels.multiply_8_bits;
  multiply({.a = reinterpret_cast<const std::int8_t*>(scratch + codes_) + first * block,
            .a_scale = reinterpret_cast<const float*>(scratch + scales_) + first,
            .a_negative_sum = reinterpret_cast<const std::int32_t*>(scratch + sums_) + first,
            .words = static_cast<const std::uint32_t*>(tensors[kCodedB]) + of_panel(kCodedB),
            .scale = static_cast<const float*>(tensors[kCodedScale]) + of_panel(kCodedScale),
            .zero_point = static_cast<const std::uint8_t*>(tensors[kCodedZeroPoint]) + of_panel(kCodedZeroPoint),
            .m = as_size(rows),
            .n = as_size(columns),
            .blocks = as_size(matrix().blocks()),
            .block = block,
            .sums = sums,
            .sums_row_stride = as_size(sums_row)});
  if (geometry_.stages_output()) {
    scatter_pixels(*target().kernels().pack, sums, rows, columns, sizeof(float), output, strides.row, strides.column);
  }
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_block_product(OperatorDesc desc, ExecutionTarget target) {
  const CodedMatrix matrix(desc);
  return std::make_unique<QuantizedBlockProduct>(std::move(desc), target, matrix);
}

}  // namespace dmlcpu
