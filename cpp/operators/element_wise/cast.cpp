// CAST: tensors input, output: 8-bit integers, INT32 or FLOAT32 to FLOAT32 or INT32, of different types; those of INT64
// are in wide_cast. Of graphs alone.
#include <stdexcept>

#include "operators/element_wise/mapped_runs.h"
#include "operators/element_wise/wide_cast.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"

namespace dmlcpu {
namespace {

DequantizeFunction kernel_to_float32(const DequantizeToFloat& kernels, DataType input) {
  switch (input) {
    case DataType::uint8:
      return kernels.uint8;
    case DataType::int8:
      return kernels.int8;
    case DataType::int32:
      return kernels.int32;
    default:
      return nullptr;
  }
}

CastFunction kernel_to_int32(const CastKernels& kernels, DataType input) {
  switch (input) {
    case DataType::uint8:
      return kernels.uint8;
    case DataType::int8:
      return kernels.int8;
    case DataType::float32:
      return kernels.float32;
    default:
      return nullptr;
  }
}

class Cast final : public CompiledOperator {
 public:
  Cast(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target), runs_(desc()) {
    const DataType input = desc().tensor(0).type;
    if (desc().tensor(1).type == DataType::float32) {
      to_float32_ = kernel_to_float32(target().kernels().dequantize->to_float32, input);
    } else {
      to_int32_ = kernel_to_int32(*target().kernels().cast, input);
    }
    if (to_float32_ == nullptr && to_int32_ == nullptr) {
      throw std::invalid_argument(desc().type + ": input and output are of the same data type");
    }
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " +
           (to_float32_ != nullptr ? kernel_words(target(), "dequantize") + ", by a scale of 1\n"
                                   : kernel_words(target(), "cast") + "\n") +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    runs_.run(tensors, target(), [this](const void* input, void* output, std::size_t count) noexcept {
      if (to_int32_ != nullptr) return to_int32_(input, count, static_cast<std::int32_t*>(output));
      // (f32(x) - 0) * 1 is f32(x).
      constexpr float kOne = 1.0F, kZero = 0.0F;
      to_float32_({.input = input,
                   .output = output,
                   .count = count,
                   .scale = &kOne,
                   .zero_point = &kZero,
                   .per_element = false});
    });
  }

 private:
  MappedRuns runs_;
  DequantizeFunction to_float32_ = nullptr;
  CastFunction to_int32_ = nullptr;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_cast(OperatorDesc desc, ExecutionTarget target) {
  if (desc.tensor(0).type == DataType::int64 || desc.tensor(1).type == DataType::int64) {
    return compile_wide_cast(std::move(desc), target);
  }
  return std::make_unique<Cast>(std::move(desc), target);
}

}  // namespace dmlcpu
