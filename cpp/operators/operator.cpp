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

// A set of data types: bit t for the type of number t.
using DataTypes = unsigned;

template <class... Types>
constexpr DataTypes set_of(Types... types) {
  return ((1U << static_cast<unsigned>(types)) | ...);
}

constexpr DataTypes kFloat32 = set_of(DataType::float32), kInt32 = set_of(DataType::int32);
constexpr DataTypes kFloats = kFloat32 | set_of(DataType::float16);
constexpr DataTypes kCodes = set_of(DataType::uint8, DataType::int8);
constexpr DataTypes kIntegers = kCodes | kInt32 | set_of(DataType::uint16, DataType::int16, DataType::uint32);

// The operators, with the types that their kernels read and write as those of each tensor.
struct FactoryRow {
  const char* type;
  Factory compile;
  DataTypes tensors[kMaxTensors];
};

constexpr FactoryRow kFactories[] = {
    {"ELEMENT_WISE_QUANTIZE_LINEAR", compile_quantize_linear, {kFloats | kInt32, kFloats, kCodes, kCodes}},
    {"ELEMENT_WISE_DEQUANTIZE_LINEAR", compile_dequantize_linear, {kIntegers, kFloats, kIntegers, kFloats}},
    {"ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
     compile_quantized_linear_add,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"DYNAMIC_QUANTIZE_LINEAR", compile_dynamic_quantize_linear, {kFloats, kCodes, kFloat32, kCodes}},
    {"QUANTIZED_LINEAR_CONVOLUTION",
     compile_quantized_linear_convolution,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kInt32, kFloat32, kCodes, kCodes}},
    {"SOFTMAX", compile_softmax, {kFloat32, kFloat32}},
    {"QUANTIZED_SOFTMAX", compile_quantized_softmax, {kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"QUANTIZED_RESAMPLE", compile_quantized_resample, {kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"ELEMENT_WISE_BINARY", compile_element_wise_binary, {kFloat32, kFloat32, kFloat32}},
    {"ELEMENT_WISE_UNARY", compile_element_wise_unary, {kFloat32, kFloat32}},
    {"CAST", compile_cast, {kCodes | kInt32 | kFloat32, kInt32 | kFloat32}},
};

const FactoryRow& factory_of(const OperatorDesc& desc) {
  for (const FactoryRow& row : kFactories) {
    if (desc.type == row.type) return row;
  }
  throw std::invalid_argument("no operator is named " + desc.type);
}

void check_layout(const OperatorDesc& desc, const TensorLayout& layout, DataTypes types) {
  if (layout.rank < 1 || layout.rank > kMaxRank) throw std::invalid_argument(desc.type + ": rank out of range");
  if (element_size(layout.type) == 0 || (set_of(layout.type) & types) == 0) {
    throw std::invalid_argument(desc.type + ": a tensor's data type is none of its kernels'");
  }
  layout.span();
  layout.element_count();
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_operator(OperatorDesc desc, ExecutionTarget target) {
  if (desc.tensors.size() > kMaxTensors) throw std::invalid_argument("an operator has at most 10 tensors");
  const FactoryRow& factory = factory_of(desc);
  for (std::size_t i = 0; i < desc.tensors.size(); ++i) {
    if (desc.tensors[i]) check_layout(desc, *desc.tensors[i], factory.tensors[i]);
  }
  return factory.compile(std::move(desc), target);
}

}  // namespace dmlcpu
