// QUANTIZE: tensors input, scale, zero point, output.
#include "operators/operator.h"
#include "operators/quantization/blockwise_operator.h"
#include "operators/quantization_kernels.h"

namespace dmlcpu {
namespace {

// In the offset domain every absent zero point is in the middle: 128 and 8 of unsigned codes, 0 of signed ones.
float middle(DataType codes) { return is_four_bits(codes) ? 8.0F : 128.0F; }

// The kernel saturates at 0 and 255; packing lowers what is above 15 (kernels/nibbles/nibbles.h), and clamping to
// 0..255 first and to 0..15 then is clamping to 0..15.
class Quantize final : public BlockwiseOperator {
 public:
  Quantize(OperatorDesc&& operator_desc, ExecutionTarget execution_target, DataType codes)
      : BlockwiseOperator(std::move(operator_desc), execution_target, offset_flip(codes), middle(codes)),
        flip_(is_four_bits(codes) ? std::uint8_t{0} : offset_flip(codes)),
        kernel_(quantize_kernel(*target().kernels().quantize, desc().tensor(kInput).type)) {}

 protected:
  const char* kernel_family() const override { return "quantize"; }

  void compute(const ScaledBlock& block) const noexcept override { kernel_(quantize_run(block, flip_)); }

 private:
  std::uint8_t flip_;
  QuantizeFunction kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantize(OperatorDesc desc, ExecutionTarget target) {
  const DataType codes = desc.tensor(Quantize::kOutput).type;
  return std::make_unique<Quantize>(std::move(desc), target, codes);
}

}  // namespace dmlcpu
