#include "operators/element_wise/integer_binary.h"

#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/element_wise/element_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

// In the order of FloatBinary; an integer divided by 0 has no result.
constexpr const char* kFunctions[] = {"add", "subtract", "multiply", nullptr, "maximum", "minimum"};

class IntegerBinary final : public CompiledOperator {
 public:
  IntegerBinary(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        function_(index_attribute(desc(), "function", std::size(kFunctions))) {
    const DataType type = desc().tensor(kOutput).type;
    if (desc().tensor(kA).type != type || desc().tensor(kB).type != type) {
      throw std::invalid_argument(desc().type + ": a, b and output differ in data type");
    }
    if (kFunctions[function_] == nullptr) throw std::invalid_argument(desc().type + ": integers are not divided");
  }

  std::string describe() const override {
    return std::string("algorithm: one pass, ") + kFunctions[function_] + "\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    desc().tensor(kOutput).type == DataType::int64 ? compute<std::int64_t>(tensors) : compute<std::int32_t>(tensors);
  }

 private:
  template <class Element>
  void compute(const TensorPointers& tensors) const {
    using Bits = std::make_unsigned_t<Element>;  // wraps where a signed integer may not overflow
    const ElementRuns runs(runs_, static_cast<Element*>(tensors[kOutput]), static_cast<const Element*>(tensors[kA]),
                           static_cast<const Element*>(tensors[kB]));
    const int threads = target().num_threads;
    const auto bits = [](Element value) { return static_cast<Bits>(value); };
    switch (function_) {
      case 0:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) + bits(b)); });
      case 1:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) - bits(b)); });
      case 2:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) * bits(b)); });
      case 4:
        return runs.run(threads, [](Element a, Element b) { return std::max(a, b); });
      default:
        return runs.run(threads, [](Element a, Element b) { return std::min(a, b); });
    }
  }

  StridedRuns runs_;
  std::size_t function_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_integer_binary(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<IntegerBinary>(std::move(desc), target);
}

}  // namespace dmlcpu
