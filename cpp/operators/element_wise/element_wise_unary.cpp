// ELEMENT_WISE_UNARY: tensors input, output, FLOAT32; attributes function, a FloatUnary, and the bits of alpha and beta
// where the function has these. Of graphs alone.
#include "operators/attributes.h"
#include "operators/element_wise/mapped_runs.h"
#include "operators/operator.h"
#include "operators/plan_words.h"

namespace dmlcpu {
namespace {

struct FunctionRow {
  const char* name;
  bool has_alpha, has_beta;
};

// In the order of FloatUnary.
constexpr FunctionRow kFunctions[kFloatUnaryCount] = {
    {"relu", false, false},
    {"sigmoid", false, false},
    {"tanh", false, false},
    {"exponential", false, false},
    {"square root", false, false},
    {"reciprocal", false, false},
    {"error function", false, false},
    {"hard sigmoid", true, true},
    {"clip", true, true},
    {"leaky relu", true, false},
    {"identity", false, false},
    {"negate", false, false},
    {"gelu", true, false},
    {"logarithm", false, false},
    {"gated", true, false},
    {"tanh gelu", true, true},
    {"floor", false, false},
    {"ceil", false, false},
    {"round", false, false},
    {"sine", false, false},
    {"cosine", false, false},
    {"quantized to 16 bits", true, true},
    {"quantized to float8 e4m3", true, false},
    {"quantized to float8 e5m2", true, false},
    {"absolute", false, false},
    {"softsign", false, false},
    {"softplus", false, false},
    {"mish", false, false},
    {"elu", true, true},
    {"hard swish", true, true},
    {"arctangent", false, false},
    {"arcsine", false, false},
    {"arccosine", false, false},
    {"hyperbolic sine", false, false},
    {"hyperbolic cosine", false, false},
    {"sign", false, false},
    {"cube", false, false},
    {"reciprocal square root", false, false},
};

class ElementWiseUnary final : public CompiledOperator {
 public:
  ElementWiseUnary(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(desc()),
        function_(index_attribute(desc(), "function", kFloatUnaryCount)),
        alpha_(kFunctions[function_].has_alpha ? parameter("alpha") : 0.0F),
        beta_(kFunctions[function_].has_beta ? parameter("beta") : 0.0F) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "float_functions") + ", " +
           kFunctions[function_].name + "\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const FloatUnaryFunction kernel = target().kernels().float_functions->unary[function_];
    runs_.run(tensors, target(), [&](const void* input, void* output, std::size_t count) noexcept {
      kernel(run_of(static_cast<const float*>(input), static_cast<float*>(output), count));
    });
  }

  ElementStage make_stage(const TensorPointers&) const override {
    return FloatUnaryStage{target().kernels().float_functions->unary[function_], run_of(nullptr, nullptr, 0)};
  }

 private:
  FloatUnaryRun run_of(const float* input, float* output, std::size_t count) const {
    return {.input = input, .output = output, .count = count, .alpha = alpha_, .beta = beta_};
  }
  float parameter(const char* name) const { return float_of_bits(desc(), name, desc().attribute(name).front()); }

  MappedRuns runs_;
  std::size_t function_;
  float alpha_, beta_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_element_wise_unary(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ElementWiseUnary>(std::move(desc), target);
}

}  // namespace dmlcpu
