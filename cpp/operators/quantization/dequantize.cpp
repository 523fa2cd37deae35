// DEQUANTIZE: tensors input, scale, zero point, output.
#include "operators/operator_table.h"
#include "operators/quantization/blockwise_operator.h"

namespace dmlcpu {
namespace {

// Codes of 4 bits, and so their zero points, are in the offset domain, which leaves the differences as they are.
DequantizeFunction select_kernel(const DequantizeKernels& kernels, DataType input, DataType output) {
  const DequantizeToFloat& row = output == DataType::float16 ? kernels.to_float16 : kernels.to_float32;
  return input == DataType::int8 ? row.int8 : row.uint8;
}

float zero_point_offset(DataType codes) { return codes == DataType::int4 ? 8.0F : 0.0F; }

// 128 of UINT8, 8 of UINT4, 0 of INT8 and of INT4, where it is 8 in the offset domain.
float absent_zero_point(DataType codes) {
  if (is_four_bits(codes)) return 8.0F;
  return codes == DataType::uint8 ? 128.0F : 0.0F;
}

class Dequantize final : public BlockwiseOperator {
 public:
  Dequantize(OperatorDesc operator_desc, ExecutionTarget execution_target, DataType codes)
      : BlockwiseOperator(std::move(operator_desc), execution_target, zero_point_offset(codes),
                          absent_zero_point(codes)),
        kernel_(select_kernel(*target().kernels().dequantize, codes, desc().tensor(3).type)) {}

 protected:
  const char* kernel_family() const override { return "dequantize"; }

  NibbleRowsFunction packed_rows_kernel() const override {
    const NibblesKernels& nibbles = *target().kernels().nibbles;
    return desc().tensor(3).type == DataType::float16 ? nibbles.dequantize_float16 : nibbles.dequantize_float32;
  }

  void compute(const ScaledRows& rows) const noexcept override {
    kernel_({.input = rows.input,
             .output = rows.output,
             .count = rows.columns,
             .scale = rows.scale,
             .zero_point = rows.zero_point,
             .per_element = rows.per_element,
             .rows = rows.rows,
             .input_row_stride = rows.input_row_stride,
             .output_row_stride = rows.output_row_stride});
  }

 private:
  DequantizeFunction kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_dequantize(OperatorDesc desc, ExecutionTarget target) {
  const DataType codes = desc.tensor(0).type;
  return std::make_unique<Dequantize>(std::move(desc), target, codes);
}

}  // namespace dmlcpu
