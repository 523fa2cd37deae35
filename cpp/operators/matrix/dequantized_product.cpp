// DEQUANTIZED_PRODUCT: a product of a FLOAT32 matrix and a coded one (coded_matrix.h) that is dequantized on the way:
// tiled_float_product.h, bit for bit the product with the dequantized matrix. Of graphs alone.
//
// A few rows meet codes as they are dequantized, in registers; for more a task dequantizes a block of a panel, into a
// level-1 cache, and meets it with its rows as FLOAT_PRODUCT does.
#include <algorithm>

#include "operators/float_tiles.h"
#include "operators/matrix/coded_matrix.h"
#include "operators/matrix/tiled_float_product.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kPanelColumns = kCodedPanelColumns, kFewRows = 8;

class DequantizedProduct final : public OfCodedMatrix<TiledFloatProduct> {
 public:
  DequantizedProduct(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const MatrixGeometry& geometry,
                     const CodedMatrix& matrix)
      : OfCodedMatrix(matrix, std::move(operator_desc), execution_target, geometry, kCodedOutput, kPanelColumns,
                      geometry.m <= kFewRows ? 0 : as_size(kFloatBlockTerms * kPanelColumns) * sizeof(float)),
        kernels_(matrix.bits() == 4 ? target().kernels().dequantized_product->of_4_bits
                                    : target().kernels().dequantized_product->of_8_bits) {}

  std::string describe() const override {
    return "algorithm: float32 product, k in order, b of " + std::to_string(matrix().bits()) + " bits in " +
           counted(matrix().blocks(), "block") + " a column, dequantized " +
           (few_rows() ? "in registers" : "for each tile") +
           "\nkernel: " + kernel_words(target(), "dequantized_product") +
           (few_rows() ? "" : ", " + kernel_words(target(), "float_product")) + "\n" + describe_tiles();
  }

 protected:
  std::int64_t terms_from(std::int64_t k) const noexcept override;
  void accumulate(const TensorPointers& tensors, const Terms& terms, FloatProductBlock& block,
                  std::uint8_t* own) const noexcept override;

 private:
  bool few_rows() const { return geometry().m <= kFewRows; }

  const DequantizedProductFunctions& kernels_;
};

// Up to the end of a block, or whole blocks.
std::int64_t DequantizedProduct::terms_from(std::int64_t k) const noexcept {
  const std::int64_t size = matrix().block_size();
  const std::int64_t most = size < kFloatBlockTerms ? kFloatBlockTerms / size * size : size - k % size;
  return std::min({most, kFloatBlockTerms, geometry().k - k});
}

void DequantizedProduct::accumulate(const TensorPointers& tensors, const Terms& terms, FloatProductBlock& block,
                                    std::uint8_t* own) const noexcept {
  const std::size_t panel = as_size(terms.column / kPanelColumns), columns = as_size(kPanelColumns);
  const std::size_t of_block = as_size(terms.k / matrix().block_size());
  const std::size_t word =
      of_block * as_size(matrix().words_of_block()) + as_size(terms.k % matrix().block_size() * matrix().bits() / 32);
  const auto of_panel = [&](std::size_t tensor, std::size_t row) {
    return panel * matrix().panel_elements(tensor) + row * columns;
  };
  const CodedPanel codes = {
      .words = static_cast<const std::uint32_t*>(tensors[kCodedB]) + of_panel(kCodedB, word),
      .scale = static_cast<const float*>(tensors[kCodedScale]) + of_panel(kCodedScale, of_block),
      .zero_point = static_cast<const std::uint8_t*>(tensors[kCodedZeroPoint]) + of_panel(kCodedZeroPoint, of_block),
      .block = as_size(std::min(matrix().block_size(), kFloatBlockTerms)),
      .k = block.k};
  if (few_rows()) {
    kernels_.accumulate({.a = block.a,
                         .a_row_stride = block.a_row_stride,
                         .b = codes,
                         .m = block.m,
                         .n = block.n,
                         .sums = block.sums,
                         .sums_row_stride = block.sums_row_stride,
                         .begins = block.begins});
    return;
  }
  auto* values = reinterpret_cast<float*>(own);
  kernels_.dequantize(codes, values);
  block.b = values;
  block.b_row_stride = columns;
  block.b_is_near = true;
  target().kernels().float_product->accumulate(block);
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_dequantized_product(OperatorDesc desc, ExecutionTarget target) {
  const CodedMatrix matrix(desc);
  const MatrixGeometry geometry = matrix.geometry(desc);
  return std::make_unique<DequantizedProduct>(std::move(desc), target, geometry, matrix);
}

}  // namespace dmlcpu
