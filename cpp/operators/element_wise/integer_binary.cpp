#include "operators/element_wise/integer_binary.h"

#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/element_wise/element_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

// In the order of IntegerBinary.
constexpr const char* kFunctions[] = {"add",       "subtract", "multiply",    "divide",     "maximum",    "minimum",
                                      "remainder", "modulus",  "bitwise and", "bitwise or", "bitwise xor"};

template <class Element>
using Bits = std::make_unsigned_t<Element>;  // wraps where a signed integer may not overflow

template <class Element>
Element negative(Element value) noexcept {
  return static_cast<Element>(Bits<Element>{0} - static_cast<Bits<Element>>(value));
}

template <class Element>
Element quotient(Element a, Element b) noexcept {
  if (b == 0) return 0;
  return b == -1 ? negative(a) : static_cast<Element>(a / b);
}

template <class Element>
Element remainder(Element a, Element b) noexcept {
  return b == 0 || b == -1 ? Element{0} : static_cast<Element>(a % b);
}

template <class Element>
Element modulus(Element a, Element b) noexcept {
  const Element rest = remainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<Element>(rest + b) : rest;
}

class ElementWiseIntegerBinary final : public CompiledOperator {
 public:
  ElementWiseIntegerBinary(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        function_(static_cast<IntegerBinary>(index_attribute(desc(), "function", std::size(kFunctions)))) {
    const DataType type = desc().tensor(kOutput).type;
    if (desc().tensor(kA).type != type || desc().tensor(kB).type != type) {
      throw std::invalid_argument(desc().type + ": a, b and output differ in data type");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: one pass, ") + kFunctions[static_cast<std::size_t>(function_)] + "\n" +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    desc().tensor(kOutput).type == DataType::int64 ? compute<std::int64_t>(tensors) : compute<std::int32_t>(tensors);
  }

 private:
  template <class Element>
  void compute(const TensorPointers& tensors) const {
    const ElementRuns runs(runs_, static_cast<Element*>(tensors[kOutput]), static_cast<const Element*>(tensors[kA]),
                           static_cast<const Element*>(tensors[kB]));
    const int threads = target().num_threads;
    const auto bits = [](Element value) { return static_cast<Bits<Element>>(value); };
    switch (function_) {
      case IntegerBinary::add:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) + bits(b)); });
      case IntegerBinary::subtract:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) - bits(b)); });
      case IntegerBinary::multiply:
        return runs.run(threads, [=](Element a, Element b) { return static_cast<Element>(bits(a) * bits(b)); });
      case IntegerBinary::divide:
        return runs.run(threads, [](Element a, Element b) { return quotient(a, b); });
      case IntegerBinary::maximum:
        return runs.run(threads, [](Element a, Element b) { return std::max(a, b); });
      case IntegerBinary::minimum:
        return runs.run(threads, [](Element a, Element b) { return std::min(a, b); });
      case IntegerBinary::remainder:
        return runs.run(threads, [](Element a, Element b) { return remainder(a, b); });
      case IntegerBinary::modulus:
        return runs.run(threads, [](Element a, Element b) { return modulus(a, b); });
      case IntegerBinary::bitwise_and:
        return runs.run(threads, [](Element a, Element b) { return static_cast<Element>(a & b); });
      case IntegerBinary::bitwise_or:
        return runs.run(threads, [](Element a, Element b) { return static_cast<Element>(a | b); });
      case IntegerBinary::bitwise_xor:
        return runs.run(threads, [](Element a, Element b) { return static_cast<Element>(a ^ b); });
    }
  }

  StridedRuns runs_;
  IntegerBinary function_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_integer_binary(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ElementWiseIntegerBinary>(std::move(desc), target);
}

}  // namespace dmlcpu
