// CAST: tensors input, output: 8-bit integers, INT32 or FLOAT32 to FLOAT32 or INT32, of different types, and FLOAT32 to
// FLOAT16 and back; those of INT64 are in wide_cast. Of graphs alone.
#include <stdexcept>

#include "operators/element_wise/mapped_runs.h"
#include "operators/element_wise/wide_cast.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/quantization_kernels.h"

namespace dmlcpu {
namespace {

CastFunction casting_kernel(const CastKernels& kernels, DataType input, DataType output) {
  if (output == DataType::float16) return input == DataType::float32 ? kernels.float32_to_float16 : nullptr;
  if (output == DataType::float32) return input == DataType::float16 ? kernels.float16_to_float32 : nullptr;
  if (output != DataType::int32) return nullptr;
  switch (input) {
    case DataType::uint8:
      return kernels.uint8_to_int32;
    case DataType::int8:
      return kernels.int8_to_int32;
    case DataType::float32:
      return kernels.float32_to_int32;
    default:
      return nullptr;
  }
}

class Cast final : public CompiledOperator {
 public:
  Cast(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target), runs_(desc()) {
    const DataType input = desc().tensor(0).type, output = desc().tensor(1).type;
    if (output == DataType::float32) dequantize_ = dequantize_kernel(*target().kernels().dequantize, input, output);
    if (dequantize_ == nullptr) cast_ = casting_kernel(*target().kernels().cast, input, output);
    if (dequantize_ == nullptr && cast_ == nullptr) {
      throw std::invalid_argument(desc().type + ": no conversion of these data types");
    }
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " +
           (dequantize_ != nullptr ? kernel_words(target(), "dequantize") + ", by a scale of 1\n"
                                   : kernel_words(target(), "cast") + "\n") +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run(tensors, target(), [this](const void* input, void* output, std::size_t count) noexcept {
      if (cast_ != nullptr) return cast_(input, count, output);
      // (f32(x) - 0) * 1 is f32(x).
      constexpr float kOne = 1.0F, kZero = 0.0F;
      dequantize_({.input = input,
                   .output = output,
                   .count = count,
                   .scale = &kOne,
                   .zero_point = &kZero,
                   .per_element = false});
    });
  }

 private:
  MappedRuns runs_;
  DequantizeFunction dequantize_ = nullptr;
  CastFunction cast_ = nullptr;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_cast(OperatorDesc desc, ExecutionTarget target) {
  if (desc.tensor(0).type == DataType::int64 || desc.tensor(1).type == DataType::int64) {
    return compile_wide_cast(std::move(desc), target);
  }
  return std::make_unique<Cast>(std::move(desc), target);
}

}  // namespace dmlcpu
