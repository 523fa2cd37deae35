// ELEMENT_WISE_IF: tensors condition, UINT8, a, b and output, of one data type, all of equal sizes (a stride of 0
// broadcasts): the element of a where the condition is not 0, else that of b. Of graphs alone.
#include <stdexcept>

#include "operators/element_wise/element_runs.h"
#include "operators/operator.h"
#include "operators/strides/element_width.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kCondition, kA, kB, kOutput };

class ElementWiseIf final : public CompiledOperator {
 public:
  ElementWiseIf(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kCondition), &desc().tensor(kA), &desc().tensor(kB)}) {
    const DataType type = desc().tensor(kOutput).type;
    if (desc().tensor(kA).type != type || desc().tensor(kB).type != type) {
      throw std::invalid_argument(desc().type + ": a, b and output differ in data type");
    }
  }

  std::string describe() const override {
    return "algorithm: one pass, element by element\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    with_element_of(element_size(desc().tensor(kOutput).type),
                    [&]<class Element>(Element) { choose<Element>(tensors); });
  }

 private:
  template <class Element>
  void choose(const TensorPointers& tensors) const {
    ElementRuns(runs_, static_cast<Element*>(tensors[kOutput]), static_cast<const std::uint8_t*>(tensors[kCondition]),
                static_cast<const Element*>(tensors[kA]), static_cast<const Element*>(tensors[kB]))
        .run(target().num_threads, [](std::uint8_t condition, Element a, Element b) -> Element {
          // Without a branch: whole vectors are chosen by a mask.
          const auto chosen = static_cast<Element>(condition != 0 ? ~Element{0} : Element{0});
          return static_cast<Element>((a & chosen) | (b & static_cast<Element>(~chosen)));
        });
  }

  StridedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_element_wise_if(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<ElementWiseIf>(std::move(desc), target);
}

}  // namespace dmlcpu
