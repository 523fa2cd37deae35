#include "operators/operator.h"

#include <cstring>
#include <stdexcept>

#include "runtime/float_environment.h"

namespace dmlcpu {

std::int64_t TensorLayout::element_count() const {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (__builtin_mul_overflow(count, sizes[axis], &count))
      throw std::invalid_argument("the sizes of a tensor overflow");
  }
  return count;
}

std::int64_t TensorLayout::span() const {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t reach = 0;
    if (sizes[axis] < 1 || strides[axis] < 0 || __builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > INT64_MAX / 16) {
      throw std::invalid_argument("the sizes and strides of a tensor overflow");
    }
  }
  return last + 1;
}

const TensorLayout& OperatorDesc::tensor(std::size_t index) const {
  if (index >= tensors.size() || !tensors[index]) throw std::invalid_argument(type + " lacks a required tensor");
  return *tensors[index];
}

const std::vector<std::int64_t>& OperatorDesc::attribute(const std::string& name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.empty()) throw std::invalid_argument(type + " lacks " + name);
  return found->second;
}

std::optional<AlignedBuffer> CompiledOperator::pack_owned(std::size_t, const void*) const { return std::nullopt; }

std::size_t CompiledOperator::packed_owned_size(std::size_t tensor) const {
  return desc_.tensors[tensor]->span_bytes();
}

void CompiledOperator::initialize(const TensorPointers& owned) {
  const DefaultFloatEnvironment environment;
  std::array<AlignedBuffer, kMaxTensors> kept;
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    const std::optional<TensorLayout>& layout = desc_.tensors[i];
    if (!layout || !layout->owned) continue;
    if (std::optional<AlignedBuffer> packed = pack_owned(i, owned[i])) {
      kept[i] = std::move(*packed);
    } else {
      kept[i] = AlignedBuffer(layout->span_bytes());
      std::memcpy(kept[i].data(), owned[i], kept[i].size());
    }
  }
  owned_ = std::move(kept);
}

void CompiledOperator::dispatch(const TensorPointers& bound) const {
  const DefaultFloatEnvironment environment;
  TensorPointers tensors = bound;
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    if (desc_.tensors[i] && desc_.tensors[i]->owned) tensors[i] = owned_[i].data();
  }
  run(tensors);
}

std::size_t CompiledOperator::persistent_size() const {
  std::size_t size = 0;
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    if (desc_.tensors[i] && desc_.tensors[i]->owned) size += packed_owned_size(i);
  }
  return size;
}

namespace {

using Factory = std::unique_ptr<CompiledOperator> (*)(OperatorDesc, ExecutionTarget);

struct FactoryRow {
  const char* type;
  Factory compile;
};

constexpr FactoryRow kFactories[] = {
    {"ELEMENT_WISE_QUANTIZE_LINEAR", compile_quantize_linear},
    {"ELEMENT_WISE_DEQUANTIZE_LINEAR", compile_dequantize_linear},
    {"ELEMENT_WISE_QUANTIZED_LINEAR_ADD", compile_quantized_linear_add},
    {"DYNAMIC_QUANTIZE_LINEAR", compile_dynamic_quantize_linear},
    {"QUANTIZED_LINEAR_CONVOLUTION", compile_quantized_linear_convolution},
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_operator(OperatorDesc desc, ExecutionTarget target) {
  if (desc.tensors.size() > kMaxTensors) throw std::invalid_argument("an operator has at most 10 tensors");
  for (const std::optional<TensorLayout>& layout : desc.tensors) {
    if (!layout) continue;
    if (layout->rank < 1 || layout->rank > kMaxRank || element_size(layout->type) == 0) {
      throw std::invalid_argument(desc.type + ": a tensor's rank or data type is out of range");
    }
    layout->span();
    layout->element_count();
  }
  for (const FactoryRow& row : kFactories) {
    if (desc.type == row.type) return row.compile(std::move(desc), target);
  }
  throw std::invalid_argument("no operator is named " + desc.type);
}

}  // namespace dmlcpu
