// MAX_UNPOOLING: tensors input, indices (INT32 or INT64, of the input's sizes), output {N, C, ...} of the input's N and
// C and any sizes behind; attribute value (0..255). Index i is the place of element i in the output, counted through
// all of it in row-major order. Of several elements of one place the last one counts; each byte of what no element is
// written to is the value: 0, or of codes one. Of graphs alone.
//
// An index out of range throws std::out_of_range at a dispatch; nothing is written for it. A task reads each once: the
// array may change under the hands of a dispatch.
//
// A maximum is mostly of its own channel. So each plane is filled while its elements are written, and tasks have planes
// of their own. Where an index names another plane, everything is written once more, in order.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "operators/attributes.h"
#include "operators/buffer_layout.h"
#include "operators/operator.h"
#include "operators/sizes.h"
#include "operators/strides/element_width.h"
#include "operators/strides/packed_layout.h"
#include "operators/strides/strided_copy.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kIndices, kOutput };

class MaxUnpooling final : public CompiledOperator {
 public:
  MaxUnpooling(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        value_(static_cast<std::uint8_t>(index_attribute(desc(), "value", 256))) {
    check_sizes();
    const TensorLayout& output = desc().tensor(kOutput);
    planes_ = as_size(output.sizes[0] * output.sizes[1]);
    elements_of_plane_ = as_size(desc().tensor(kInput).element_count()) / planes_;
    plane_ = as_size(output.element_count()) / planes_;
    BufferLayout layout;
    for (const Tensor number : {kInput, kIndices, kOutput}) stage(number, layout);
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }

  std::string describe() const override {
    return "algorithm: " + std::to_string(planes_) + " planes of " + std::to_string(plane_) + ", " +
           std::to_string(elements_of_plane_) +
           " elements of each written\ntasks: " + std::to_string(planes_of_task()) + " planes each";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    std::uint8_t* const scratch = thread_scratch(scratch_size_);
    TensorPointers staged = tensors;
    for (const Tensor number : {kInput, kIndices, kOutput}) {
      if (!copies_[number]) continue;
      staged[number] = scratch + places_[number];
      if (number != kOutput) copies_[number]->run(tensors[number], staged[number]);
    }
    with_element_of(element_size(desc().tensor(kOutput).type), [&]<class Element>(Element) {
      if (desc().tensor(kIndices).type == DataType::int64) return unpool<Element, std::int64_t>(staged);
      unpool<Element, std::int32_t>(staged);
    });
    if (copies_[kOutput]) copies_[kOutput]->run(staged[kOutput], tensors[kOutput]);
  }

 private:
  void check_sizes() const {
    const TensorLayout &input = desc().tensor(kInput), &indices = desc().tensor(kIndices);
    const TensorLayout& output = desc().tensor(kOutput);
    if (input.type != output.type || input.rank != output.rank || input.rank < 2 || input.sizes[0] != output.sizes[0] ||
        input.sizes[1] != output.sizes[1]) {
      throw std::invalid_argument(desc().type +
                                  ": input and output are of one data type and share all sizes but those of planes");
    }
    if (indices.rank != input.rank || !std::equal(&input.sizes[0], &input.sizes[input.rank], &indices.sizes[0])) {
      throw std::invalid_argument(desc().type + ": input and indices differ in sizes");
    }
  }

  // What is not packed is, in scratch memory.
  void stage(Tensor number, BufferLayout& layout) {
    const TensorLayout& tensor = desc().tensor(number);
    if (is_packed(tensor)) return;
    const TensorLayout dense = packed(tensor);
    places_[number] = layout.take(as_size(dense.element_count()), element_size(dense.type));
    if (number == kOutput) {
      copies_[number].emplace(tensor, dense, target());
    } else {
      copies_[number].emplace(dense, tensor, target());
    }
  }

  std::size_t planes_of_task() const {
    return rows_of_task(static_cast<double>(planes_), static_cast<double>(plane_ + elements_of_plane_),
                        target().num_threads);
  }

  template <class Element, class Index>
  void unpool(const TensorPointers& tensors) const {
    const auto* input = static_cast<const Element*>(tensors[kInput]);
    const auto* indices = static_cast<const volatile Index*>(tensors[kIndices]);
    auto* output = static_cast<Element*>(tensors[kOutput]);
    std::atomic<bool> all_at_home{true};
    const std::size_t of_task = planes_of_task();
    parallel_for((planes_ + of_task - 1) / of_task, target().num_threads, [&](std::size_t task, int) noexcept {
      const std::size_t end = std::min((task + 1) * of_task, planes_);
      for (std::size_t plane = task * of_task; plane < end; ++plane) {
        const std::size_t first = plane * elements_of_plane_;
        if (!unpool_plane(input + first, indices + first, output + plane * plane_, plane * plane_)) {
          all_at_home.store(false, std::memory_order_relaxed);
          return;
        }
      }
    });
    if (!all_at_home.load(std::memory_order_relaxed)) unpool_anywhere(input, indices, output);
  }

  // Returns whether all indices are of this plane, whose first element has the number base.
  template <class Element, class Index>
  bool unpool_plane(const Element* input, const volatile Index* indices, Element* output,
                    std::size_t base) const noexcept {
    std::memset(output, value_, plane_ * sizeof(Element));
    for (std::size_t i = 0; i < elements_of_plane_; ++i) {
      // Of what is before the plane, or below 0, wraps to a number beyond any tensor.
      const std::size_t place = static_cast<std::size_t>(static_cast<std::int64_t>(indices[i])) - base;
      if (place >= plane_) return false;
      output[place] = input[i];
    }
    return true;
  }

  template <class Element, class Index>
  void unpool_anywhere(const Element* input, const volatile Index* indices, Element* output) const {
    const std::size_t count = planes_ * plane_;
    std::memset(output, value_, count * sizeof(Element));
    for (std::size_t i = 0; i < planes_ * elements_of_plane_; ++i) {
      const std::int64_t index = indices[i];
      if (static_cast<std::size_t>(index) >= count) {
        throw std::out_of_range("got index " + std::to_string(index) + ", expected one from 0 to " +
                                std::to_string(count - 1));
      }
      output[index] = input[i];
    }
  }

  std::uint8_t value_;
  std::size_t planes_, elements_of_plane_, plane_;  // plane_: elements of the output's
  std::optional<StridedCopy> copies_[kOutput + 1];
  std::size_t places_[kOutput + 1]{}, scratch_size_ = 0;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_max_unpooling(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<MaxUnpooling>(std::move(desc), target);
}

}  // namespace dmlcpu
