// ELEMENT_WISE_QUANTIZED_LINEAR_ADD, and QUANTIZED_MULTIPLY, which DirectML does not have: tensors a, a scale, a zero
// point, b, b scale, b zero point, output scale, output zero point, output.
#include <array>
#include <optional>
#include <stdexcept>

#include "operators/element_wise/code_runs.h"
#include "operators/element_wise/integer_sum.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/staging.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t {
  kA,
  kAScale,
  kAZeroPoint,
  kB,
  kBScale,
  kBZeroPoint,
  kOutputScale,
  kOutputZeroPoint,
  kOutput
};

class Addition {
 public:
  static constexpr const char* kFamily = "add";
  using Run = AddRun;
  using Stage = AddStage;

  explicit Addition(const KernelTable& kernels) : integers_(*kernels.add) {}
  // The kernel for so many codes by the parameters of a dispatch.
  AddFunction kernel(AddRun& run, std::size_t count) const { return integers_.function_for(run, count); }
  std::string describe() const { return std::string("sums: ") + integers_.words() + "\n"; }

 private:
  mutable IntegerSums integers_;
};

class Multiplication {
 public:
  static constexpr const char* kFamily = "multiply";
  using Run = MultiplyRun;
  using Stage = MultiplyStage;

  explicit Multiplication(const KernelTable& kernels) : kernel_(kernels.multiply->run) {}
  MultiplyFunction kernel(MultiplyRun&, std::size_t) const { return kernel_; }
  std::string describe() const { return {}; }

 private:
  MultiplyFunction kernel_;
};

template <class Operation>
class QuantizedBinary final : public CompiledOperator {
 public:
  QuantizedBinary(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}, target()),
        operation_(target().kernels()) {
    check_parameters(kA, kAScale, kAZeroPoint);
    check_parameters(kB, kBScale, kBZeroPoint);
    check_parameters(kOutput, kOutputScale, kOutputZeroPoint);
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), Operation::kFamily) + "\n" + operation_.describe() +
           runs_.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const typename Operation::Stage whole = stage_of(tensors);
    runs_.run({whole.run.a, whole.run.b}, static_cast<std::uint8_t*>(tensors[kOutput]),
              [&](const CodeRuns::Inputs& inputs, std::uint8_t* output, std::size_t count) noexcept {
                Run part = whole.run;
                part.a = inputs[0];
                part.b = inputs[1];
                part.output = output;
                part.count = count;
                whole.kernel(part);
              });
  }

  CodeStage make_stage(const TensorPointers& tensors) const override { return stage_of(tensors); }

 private:
  using Run = typename Operation::Run;
  using Operand = decltype(Run::a_parameters);

  void check_parameters(Tensor codes, Tensor scale, Tensor zero_point) const {
    desc().tensor(scale);
    const std::optional<TensorLayout>& given = desc().tensors[zero_point];
    if (given && given->type != desc().tensor(codes).type) {
      throw std::invalid_argument(desc().type + ": a zero point is of its tensor's data type");
    }
  }

  // The kernel with the operands and their parameters; where results go is left open.
  typename Operation::Stage stage_of(const TensorPointers& tensors) const {
    Run run = {.a = static_cast<const std::uint8_t*>(tensors[kA]),
               .b = static_cast<const std::uint8_t*>(tensors[kB]),
               .output = nullptr,
               .count = 0,
               .a_parameters = operand(tensors, kA, kAScale, kAZeroPoint),
               .b_parameters = operand(tensors, kB, kBScale, kBZeroPoint),
               .output_parameters = operand(tensors, kOutput, kOutputScale, kOutputZeroPoint)};
    const auto kernel = operation_.kernel(run, as_size(desc().tensor(kOutput).element_count()));
    return {kernel, run};
  }

  Operand operand(const TensorPointers& tensors, Tensor codes, Tensor scale, Tensor zero_point) const {
    const DataType type = desc().tensor(codes).type;
    const std::uint8_t flip = offset_flip(type);
    return {.scale = value_as_float(tensors[scale], DataType::float32),
            .zero_point = value_as_float(tensors[zero_point], type) + flip,
            .flip = flip};
  }

  CodeRuns runs_;
  Operation operation_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_add(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedBinary<Addition>>(std::move(desc), target);
}

std::unique_ptr<CompiledOperator> compile_quantized_multiply(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedBinary<Multiplication>>(std::move(desc), target);
}

}  // namespace dmlcpu
