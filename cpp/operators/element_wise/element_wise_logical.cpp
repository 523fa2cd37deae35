// ELEMENT_WISE_LOGICAL: tensors a, b, of one data type, output, UINT8, of equal sizes (a stride of 0 broadcasts);
// attribute function, of those below: 1 where it holds, else 0. The last three are of UINT8 alone, where all but 0 is
// true. Of graphs alone.
#include <array>
#include <cstdint>
#include <iterator>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/element_wise/element_runs.h"
#include "operators/operator.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

enum class Function : std::uint8_t {
  equals,
  not_equals,
  greater_than,
  greater_than_or_equal,
  less_than,
  less_than_or_equal,
  logical_and,
  logical_or,
  logical_xor
};

// In the order of Function.
constexpr const char* kFunctions[] = {
    "equals", "not equals", "greater than", "greater than or equal", "less than", "less than or equal",
    "and",    "or",         "xor",
};
static_assert(std::size(kFunctions) == static_cast<std::size_t>(Function::logical_xor) + 1);

bool is_of_conditions(Function function) { return function >= Function::logical_and; }
// a > b is b < a, and so on: fewer loops.
bool swaps(Function function) {
  return function == Function::greater_than || function == Function::greater_than_or_equal;
}

class ElementWiseLogical final : public CompiledOperator {
 public:
  ElementWiseLogical(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        function_(static_cast<Function>(index_attribute(desc(), "function", std::size(kFunctions)))),
        left_(swaps(function_) ? kB : kA),
        right_(swaps(function_) ? kA : kB),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(left_), &desc().tensor(right_)}) {
    const DataType type = desc().tensor(kA).type;
    if (type != desc().tensor(kB).type) throw std::invalid_argument(desc().type + ": a and b differ in data type");
    if (is_of_conditions(function_) && type != DataType::uint8) {
      throw std::invalid_argument(desc().type + ": only UINT8 tensors are conditions");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: one pass, ") + kFunctions[static_cast<std::size_t>(function_)] + "\n" +
           runs_.describe(target().num_threads);
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
        return is_of_conditions(function_) ? combine(tensors) : compare<std::uint8_t>(tensors);
    }
  }

 private:
  template <class Element, class Holds>
  void apply(const TensorPointers& tensors, const Holds& holds) const {
    ElementRuns(runs_, static_cast<std::uint8_t*>(tensors[kOutput]), static_cast<const Element*>(tensors[left_]),
                static_cast<const Element*>(tensors[right_]))
        .run(target().num_threads, [=](Element a, Element b) -> std::uint8_t { return holds(a, b) ? 1 : 0; });
  }

  template <class Element>
  void compare(const TensorPointers& tensors) const {
    switch (function_) {
      case Function::equals:
        return apply<Element>(tensors, [](Element a, Element b) { return a == b; });
      case Function::not_equals:
        return apply<Element>(tensors, [](Element a, Element b) { return a != b; });
      case Function::greater_than:
      case Function::less_than:
        return apply<Element>(tensors, [](Element a, Element b) { return a < b; });
      default:
        return apply<Element>(tensors, [](Element a, Element b) { return a <= b; });
    }
  }

  void combine(const TensorPointers& tensors) const {
    switch (function_) {
      case Function::logical_and:
        return apply<std::uint8_t>(tensors, [](bool a, bool b) { return a && b; });
      case Function::logical_or:
        return apply<std::uint8_t>(tensors, [](bool a, bool b) { return a || b; });
      default:
        return apply<std::uint8_t>(tensors, [](bool a, bool b) { return a != b; });
    }
  }

  Function function_;
  Tensor left_, right_;
  StridedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_element_wise_logical(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ElementWiseLogical>(std::move(desc), target);
}

}  // namespace dmlcpu
