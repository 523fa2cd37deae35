// PADDING: tensors input, output, 8-bit codes of one data type. The output is the input with start_padding elements
// before and end_padding behind it along each axis, all of them value (0..255, the raw byte).
#include <stdexcept>
#include <vector>

#include "operators/operator.h"
#include "operators/strides/strided_copy.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class Padding final : public CompiledOperator {
 public:
  Padding(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target) {
    check_sizes();
    const std::int64_t value = desc().attribute("value")[0];
    if (value < 0 || value > 255) throw std::invalid_argument(desc().type + ": value is a byte");
    value_ = static_cast<std::uint8_t>(value);
    add_slabs();
  }

  std::string describe() const override {
    return "algorithm: the input's copy, then " + std::to_string(parts_.size() - 1) + " slabs around it\n" +
           parts_[0].copy.describe();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    for (const Part& part : parts_) {
      part.copy.run(part.fills ? &value_ : tensors[kInput], static_cast<std::uint8_t*>(tensors[kOutput]) + part.offset);
    }
  }

 private:
  // A box of the output from element offset on.
  struct Part {
    StridedCopy copy;
    std::int64_t offset;
    bool fills;
  };

  std::int64_t padding(const char* name, std::size_t axis) const {
    const std::vector<std::int64_t>& values = desc().attribute(name);
    const std::size_t rank = desc().tensor(kInput).rank;
    if (values.size() != rank || values[axis] < 0) {
      throw std::invalid_argument(desc().type + ": " + name + " has an entry of 0 or more an axis");
    }
    return values[axis];
  }

  void check_sizes() const {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    if (input.rank != output.rank) throw std::invalid_argument(desc().type + ": input and output differ in rank");
    for (std::size_t axis = 0; axis < input.rank; ++axis) {
      std::int64_t size = input.sizes[axis];
      if (__builtin_add_overflow(size, padding("start_padding", axis), &size) ||
          __builtin_add_overflow(size, padding("end_padding", axis), &size) || size != output.sizes[axis]) {
        throw std::invalid_argument(desc().type + ": the output's sizes are not the input's with their padding");
      }
    }
  }

  // The padding of an axis spans what the axes before it have of the input, and all of the axes behind it.
  void add_slabs() {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    TensorLayout box = output;  // axes before the current one are cut to the input
    std::vector<Part> slabs;
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < box.rank; ++axis) {
      const std::int64_t before = padding("start_padding", axis), behind = padding("end_padding", axis);
      if (before > 0) slabs.push_back(slab(box, axis, before, offset));
      if (behind > 0) {
        slabs.push_back(slab(box, axis, behind, offset + (before + input.sizes[axis]) * box.strides[axis]));
      }
      box.sizes[axis] = input.sizes[axis];
      offset += before * box.strides[axis];
    }
    parts_.push_back({StridedCopy(box, input, target()), offset, false});
    parts_.insert(parts_.end(), slabs.begin(), slabs.end());
  }

  Part slab(TensorLayout box, std::size_t axis, std::int64_t size, std::int64_t offset) const {
    box.sizes[axis] = size;
    TensorLayout value = box;
    value.strides = {};
    return {StridedCopy(box, value, target()), offset, true};
  }

  std::uint8_t value_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_padding(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Padding>(std::move(desc), target);
}

}  // namespace dmlcpu
