// ELEMENT_WISE_QUANTIZED_LINEAR_ADD, and QUANTIZED_MULTIPLY, which DirectML does not have: tensors a, a scale, a zero
// point, b, b scale, b zero point, output scale, output zero point, output.
#include <array>

#include "operators/code_parameters.h"
#include "operators/element_wise/code_runs.h"
#include "operators/element_wise/found_integers.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"

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

constexpr CodeTensors kACodes = {kA, kAScale, kAZeroPoint};
constexpr CodeTensors kBCodes = {kB, kBScale, kBZeroPoint};
constexpr CodeTensors kOutputCodes = {kOutput, kOutputScale, kOutputZeroPoint};

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
  mutable FoundIntegers<AddKernels, AddRun> integers_;
};

class Multiplication {
 public:
  static constexpr const char* kFamily = "multiply";
  using Run = MultiplyRun;
  using Stage = MultiplyStage;

  explicit Multiplication(const KernelTable& kernels) : integers_(*kernels.multiply) {}
  MultiplyFunction kernel(MultiplyRun& run, std::size_t count) const { return integers_.function_for(run, count); }
  std::string describe() const { return std::string("products: ") + integers_.words() + "\n"; }

 private:
  mutable FoundIntegers<MultiplyKernels, MultiplyRun> integers_;
};

template <class Operation>
class QuantizedBinary final : public CompiledOperator {
 public:
  QuantizedBinary(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}, target()),
        operation_(target().kernels()) {
    for (const CodeTensors& codes : {kACodes, kBCodes, kOutputCodes}) check_code_parameters(desc(), codes);
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

  ElementStage make_stage(const TensorPointers& tensors) const override { return stage_of(tensors); }

 private:
  using Run = typename Operation::Run;
  using Operand = decltype(Run::a_parameters);

  // The kernel with the operands and their parameters; where results go is left open.
  typename Operation::Stage stage_of(const TensorPointers& tensors) const {
    Run run = {.a = static_cast<const std::uint8_t*>(tensors[kA]),
               .b = static_cast<const std::uint8_t*>(tensors[kB]),
               .output = nullptr,
               .count = 0,
               .a_parameters = operand(tensors, kACodes),
               .b_parameters = operand(tensors, kBCodes),
               .output_parameters = operand(tensors, kOutputCodes)};
    const auto kernel = operation_.kernel(run, as_size(desc().tensor(kOutput).element_count()));
    return {kernel, run};
  }

  Operand operand(const TensorPointers& tensors, const CodeTensors& codes) const {
    const auto [scale, zero_point, flip] = code_parameters(desc(), tensors, codes);
    return {.scale = scale, .zero_point = zero_point, .flip = flip};
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
