#include "operators/element_wise/wide_cast.h"

#include <stdexcept>

#include "operators/element_wise/element_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

std::int64_t to_int64(float value) noexcept {
  if (value != value) return 0;
  if (value < -0x1p63f) return INT64_MIN;
  return value >= 0x1p63f ? INT64_MAX : static_cast<std::int64_t>(value);
}

class WideCast final : public CompiledOperator {
 public:
  WideCast(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        input_(desc().tensor(kInput).type),
        output_(desc().tensor(kOutput).type),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kInput)}) {
    const bool narrows = input_ == DataType::int64 && (output_ == DataType::int32 || output_ == DataType::float32);
    const bool widens = output_ == DataType::int64 && input_ != DataType::int64 && input_ != DataType::float16;
    if (!narrows && !widens) throw std::invalid_argument(desc().type + ": no conversion of these data types");
  }

  std::string describe() const override {
    return "algorithm: one pass, element by element\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    switch (input_) {
      case DataType::float32:
        return convert<float, std::int64_t>(tensors, [](float value) { return to_int64(value); });
      case DataType::int32:
        return convert<std::int32_t, std::int64_t>(tensors, [](std::int32_t value) -> std::int64_t { return value; });
      case DataType::uint8:
        return convert<std::uint8_t, std::int64_t>(tensors, [](std::uint8_t value) -> std::int64_t { return value; });
      case DataType::int8:
        return convert<std::int8_t, std::int64_t>(tensors, [](std::int8_t value) -> std::int64_t { return value; });
      default:
        break;
    }
    if (output_ == DataType::float32) {
      return convert<std::int64_t, float>(tensors, [](std::int64_t value) { return static_cast<float>(value); });
    }
    convert<std::int64_t, std::int32_t>(tensors, [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  }

 private:
  template <class From, class To, class Function>
  void convert(const TensorPointers& tensors, const Function& function) const {
    ElementRuns(runs_, static_cast<To*>(tensors[kOutput]), static_cast<const From*>(tensors[kInput]))
        .run(target().num_threads, function);
  }

  DataType input_, output_;
  StridedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_wide_cast(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<WideCast>(std::move(desc), target);
}

}  // namespace dmlcpu
