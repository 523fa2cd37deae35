// ELEMENT_WISE_LOGICAL: tensors a, b, of one data type, output, UINT8, of equal sizes (a stride of 0 broadcasts);
// attribute function, of those below: 1 where it holds, else 0. The last three are of UINT8 alone, where all but 0 is
// true. Of graphs alone.
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/element_wise/element_runs.h"
#include "operators/operator_table.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

constexpr const char* kFunctions[] = {
    "equals", "not equals", "greater than", "greater than or equal", "less than", "less than or equal",
    "and",    "or",         "xor",
};
constexpr std::size_t kFunctionCount = std::size(kFunctions), kFirstOfConditions = 6;

class ElementWiseLogical final : public CompiledOperator {
 public:
  ElementWiseLogical(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        function_(index_attribute(desc(), "function", kFunctionCount)) {
    const DataType type = desc().tensor(kA).type;
    if (type != desc().tensor(kB).type) throw std::invalid_argument(desc().type + ": a and b differ in data type");
    if (function_ >= kFirstOfConditions && type != DataType::uint8) {
      throw std::invalid_argument(desc().type + ": only UINT8 tensors are conditions");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: one pass, ") + kFunctions[function_] + "\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    switch (desc().tensor(kA).type) {
      case DataType::float32:
        return compare<float>(tensors);
      case DataType::int64:
        return compare<std::int64_t>(tensors);
      case DataType::int32:
        return compare<std::int32_t>(tensors);
      default:
        return function_ < kFirstOfConditions ? compare<std::uint8_t>(tensors) : combine(tensors);
    }
  }

 private:
  template <class Element, class Function>
  void apply(const TensorPointers& tensors, const Function& function) const {
    ElementRuns(runs_, static_cast<std::uint8_t*>(tensors[kOutput]), static_cast<const Element*>(tensors[kA]),
                static_cast<const Element*>(tensors[kB]))
        .run(target().num_threads, function);
  }

  template <class Element>
  void compare(const TensorPointers& tensors) const {
    const auto apply_function = [&](auto holds) {
      apply<Element>(tensors, [holds](Element a, Element b) -> std::uint8_t { return holds(a, b) ? 1 : 0; });
    };
    switch (function_) {
      case 0:
        return apply_function([](Element a, Element b) { return a == b; });
      case 1:
        return apply_function([](Element a, Element b) { return a != b; });
      case 2:
        return apply_function([](Element a, Element b) { return a > b; });
      case 3:
        return apply_function([](Element a, Element b) { return a >= b; });
      case 4:
        return apply_function([](Element a, Element b) { return a < b; });
      default:
        return apply_function([](Element a, Element b) { return a <= b; });
    }
  }

  void combine(const TensorPointers& tensors) const {
    const auto apply_function = [&](auto holds) {
      apply<std::uint8_t>(
          tensors, [holds](std::uint8_t a, std::uint8_t b) -> std::uint8_t { return holds(a != 0, b != 0) ? 1 : 0; });
    };
    switch (function_ - kFirstOfConditions) {
      case 0:
        return apply_function([](bool a, bool b) { return a && b; });
      case 1:
        return apply_function([](bool a, bool b) { return a || b; });
      default:
        return apply_function([](bool a, bool b) { return a != b; });
    }
  }

  StridedRuns runs_;
  std::size_t function_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_element_wise_logical(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ElementWiseLogical>(std::move(desc), target);
}

}  // namespace dmlcpu
