// DEQUANTIZE: tensors input, scale, zero point, output.
#include "operators/blockwise_operator.h"

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
        kernel_(select_kernel(*target().kernels().dequantize, codes, desc().tensor(3).type)),
        output_bytes_(element_size(desc().tensor(3).type)) {}

 protected:
  const char* kernel_family() const override { return "dequantize"; }

  NibbleRowsFunction packed_rows_kernel() const override {
    const NibblesKernels& nibbles = *target().kernels().nibbles;
    return desc().tensor(3).type == DataType::float16 ? nibbles.dequantize_float16 : nibbles.dequantize_float32;
  }

  void compute(const ScaledRows& rows) const noexcept override {
    const std::size_t calls = rows.per_element ? 1 : rows.rows, count = rows.rows * rows.columns / calls;
    for (std::size_t i = 0; i < calls; ++i) {
      kernel_({.input = static_cast<const std::uint8_t*>(rows.input) + i * count,
               .output = static_cast<std::uint8_t*>(rows.output) + i * count * output_bytes_,
               .count = count,
               .scale = rows.scale + i,
               .zero_point = rows.zero_point + i,
               .per_element = rows.per_element});
    }
  }

 private:
  DequantizeFunction kernel_;
  std::size_t output_bytes_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_dequantize(OperatorDesc desc, ExecutionTarget target) {
  const DataType codes = desc.tensor(0).type;
  return std::make_unique<Dequantize>(std::move(desc), target, codes);
}

}  // namespace dmlcpu
