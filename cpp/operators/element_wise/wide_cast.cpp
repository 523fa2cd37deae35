#include "operators/element_wise/wide_cast.h"

#include <stdexcept>

#include "operators/element_types.h"
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
  WideCast(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
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
    if (input_ == DataType::int64) {
      return with_element_of_type<float, std::int32_t>(output_, [&]<class To>(To) {
        convert<std::int64_t, To>(tensors, [](std::int64_t value) { return static_cast<To>(value); });
      });
    }
    if (input_ == DataType::float32) {
      return convert<float, std::int64_t>(tensors, [](float value) { return to_int64(value); });
    }
    with_element_of_type<std::int32_t, std::uint8_t, std::int8_t>(input_, [&]<class From>(From) {
      convert<From, std::int64_t>(tensors, [](From value) -> std::int64_t { return value; });
    });
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
