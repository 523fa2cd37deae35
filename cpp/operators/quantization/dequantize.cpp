// DEQUANTIZE: tensors input, scale, zero point, output.
#include "operators/operator.h"
#include "operators/quantization/blockwise_operator.h"
#include "operators/quantization_kernels.h"

namespace dmlcpu {
namespace {

// Codes of 4 bits, and so their zero points, are bytes in the offset domain, which leaves the differences as they are.
DataType type_of_bytes(DataType codes) { return is_four_bits(codes) ? DataType::uint8 : codes; }

float zero_point_offset(DataType codes) { return codes == DataType::int4 ? 8.0F : 0.0F; }

// 128 of UINT8, 8 of UINT4, 0 of INT8 and of INT4, where it is 8 in the offset domain.
float absent_zero_point(DataType codes) {
  if (is_four_bits(codes)) return 8.0F;
  return codes == DataType::uint8 ? 128.0F : 0.0F;
}

class Dequantize final : public BlockwiseOperator {
 public:
  Dequantize(OperatorDesc&& operator_desc, ExecutionTarget execution_target, DataType codes)
      : BlockwiseOperator(std::move(operator_desc), execution_target, zero_point_offset(codes),
                          absent_zero_point(codes)),
        kernel_(dequantize_kernel(*target().kernels().dequantize, type_of_bytes(codes), desc().tensor(kOutput).type)) {}

 protected:
  const char* kernel_family() const override { return "dequantize"; }

  NibbleRowsFunction packed_rows_kernel() const override {
    const NibblesKernels& nibbles = *target().kernels().nibbles;
    return desc().tensor(kOutput).type == DataType::float16 ? nibbles.dequantize_float16 : nibbles.dequantize_float32;
  }

  void compute(const ScaledBlock& block) const noexcept override { kernel_(dequantize_run(block)); }

 private:
  DequantizeFunction kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_dequantize(OperatorDesc desc, ExecutionTarget target) {
  const DataType codes = desc.tensor(Dequantize::kInput).type;
  return std::make_unique<Dequantize>(std::move(desc), target, codes);
}

}  // namespace dmlcpu
