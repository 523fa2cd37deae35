#include "operators/operator.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/float_environment.h"
#include "runtime/thread_pool.h"

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

// Smaller buffers are not worth the search for others like them.
constexpr std::size_t kLeastShared = 1024;

std::optional<AlignedBuffer> CompiledOperator::pack_owned(std::size_t, const void*) const { return std::nullopt; }

std::size_t CompiledOperator::packed_owned_size(std::size_t tensor) const {
  return desc_.tensors[tensor]->span_bytes();
}

void CompiledOperator::prepare_owned(const TensorPointers&, std::uint8_t*) const {}

bool CompiledOperator::all_owned(std::span<const std::size_t> tensors) const {
  return std::ranges::all_of(tensors, [&](std::size_t tensor) {
    return tensor >= desc_.tensors.size() || !desc_.tensors[tensor] || desc_.tensors[tensor]->owned;
  });
}

void CompiledOperator::initialize(const TensorPointers& owned, SharedBuffers* shared) {
  const DefaultFloatEnvironment environment;
  std::array<std::shared_ptr<const AlignedBuffer>, kMaxTensors> kept;
  TensorPointers pointers{};
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    const std::optional<TensorLayout>& layout = desc_.tensors[i];
    if (!layout || !layout->owned) continue;
    std::optional<AlignedBuffer> packed = pack_owned(i, owned[i]);
    if (!packed) {
      packed.emplace(layout->span_bytes());
      std::memcpy(packed->data(), owned[i], packed->size());
    }
    kept[i] = shared != nullptr && packed->size() >= kLeastShared
                  ? shared->shared(std::move(*packed))
                  : std::make_shared<const AlignedBuffer>(std::move(*packed));
    pointers[i] = kept[i]->data();
  }
  AlignedBuffer prepared(prepared_size());
  prepare_owned(pointers, prepared.data());
  owned_ = std::move(kept);
  owned_pointers_ = pointers;
  prepared_ = std::move(prepared);
}

TensorPointers CompiledOperator::with_owned(const TensorPointers& bound) const {
  TensorPointers tensors = owned_pointers_;
  for (std::size_t i = 0; i < kMaxTensors; ++i) {
    if (tensors[i] == nullptr) tensors[i] = bound[i];
  }
  return tensors;
}

void CompiledOperator::dispatch(const TensorPointers& bound, std::span<const CodeStage> stages) const {
  const DefaultFloatEnvironment environment;
  const BusyThread busy;
  stages.empty() ? run(with_owned(bound)) : run_with_stages(with_owned(bound), stages);
}

CodeStage CompiledOperator::stage(const TensorPointers& bound) const {
  const DefaultFloatEnvironment environment;
  return make_stage(with_owned(bound));
}

void CompiledOperator::run_with_stages(const TensorPointers&, std::span<const CodeStage>) const {
  throw std::logic_error(desc_.type + " takes no stages");
}

CodeStage CompiledOperator::make_stage(const TensorPointers&) const {
  throw std::logic_error(desc_.type + " is no stage");
}

std::size_t CompiledOperator::persistent_size() const {
  std::size_t size = prepared_size();
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
constexpr DataTypes kBlockCodes = kCodes | set_of(DataType::uint4, DataType::int4);
constexpr DataTypes kIntegers = kCodes | kInt32 | set_of(DataType::uint16, DataType::int16, DataType::uint32);
constexpr DataTypes kIndices = kInt32 | set_of(DataType::int64), kConditions = set_of(DataType::uint8);
constexpr DataTypes kAnyType = kFloats | kIntegers | kIndices;

// The operators, with the order of axes and the types that their kernels read and write as those of each tensor.
struct FactoryRow {
  const char* type;
  Factory compile;
  Arrangement arrangement;
  DataTypes tensors[kMaxTensors];
};

constexpr FactoryRow kFactories[] = {
    {"ELEMENT_WISE_QUANTIZE_LINEAR",
     compile_quantize_linear,
     Arrangement::element_wise,
     {kFloats | kInt32, kFloats, kCodes, kCodes}},
    {"ELEMENT_WISE_DEQUANTIZE_LINEAR",
     compile_dequantize_linear,
     Arrangement::element_wise,
     {kIntegers, kFloats, kIntegers, kFloats}},
    {"QUANTIZE", compile_quantize, Arrangement::own, {kFloats, kFloats, kBlockCodes, kBlockCodes}},
    {"DEQUANTIZE", compile_dequantize, Arrangement::own, {kBlockCodes, kFloats, kBlockCodes, kFloats}},
    {"ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
     compile_quantized_linear_add,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"DYNAMIC_QUANTIZE_LINEAR",
     compile_dynamic_quantize_linear,
     Arrangement::element_wise,
     {kFloats, kCodes, kFloat32, kCodes}},
    {"QUANTIZED_LINEAR_AVERAGE_POOLING",
     compile_quantized_linear_average_pooling,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"QUANTIZED_LINEAR_CONVOLUTION",
     compile_quantized_linear_convolution,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kInt32, kFloat32, kCodes, kCodes}},
    {"CODE_TABLE", compile_code_table, Arrangement::element_wise, {kCodes, set_of(DataType::uint8), kCodes}},
    {"QUANTIZED_MULTIPLY",
     compile_quantized_multiply,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"COPY", compile_copy, Arrangement::element_wise, {kAnyType | kBlockCodes, kAnyType | kBlockCodes}},
    {"PADDING", compile_padding, Arrangement::element_wise, {kCodes, kCodes}},
    {"MAX_POOLING", compile_max_pooling, Arrangement::channels, {kCodes, kCodes}},
    {"FLOAT_POOLING", compile_float_pooling, Arrangement::channels, {kFloat32, kFloat32}},
    {"CONVOLUTION_INTEGER",
     compile_convolution_integer,
     Arrangement::channels,
     {kCodes, kCodes, kCodes, kCodes, kInt32}},
    {"MATRIX_MULTIPLY_INTEGER",
     compile_matrix_multiply_integer,
     Arrangement::own,
     {kCodes, kCodes, kCodes, kCodes, kInt32}},
    {"QUANTIZED_LINEAR_MATRIX_MULTIPLY",
     compile_quantized_linear_matrix_multiply,
     Arrangement::own,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
     compile_matrix_multiply_integer_to_float,
     Arrangement::own,
     {kIntegers, kFloats, kIntegers, kIntegers, kFloats, kIntegers, kFloats, kFloats}},
    {"SOFTMAX", compile_softmax, Arrangement::element_wise, {kFloat32, kFloat32}},
    {"QUANTIZED_SOFTMAX",
     compile_quantized_softmax,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"LAYER_NORMALIZATION",
     compile_layer_normalization,
     Arrangement::element_wise,
     {kFloat32, kFloat32, kFloat32, kFloat32}},
    {"QUANTIZED_LAYER_NORMALIZATION",
     compile_quantized_layer_normalization,
     Arrangement::element_wise,
     {kCodes, kFloat32, kFloat32, kFloat32, kCodes, kCodes}},
    {"REDUCE_MEAN", compile_reduce_mean, Arrangement::element_wise, {kFloat32, kFloat32}},
    {"FLOAT_PRODUCT", compile_float_product, Arrangement::own, {kFloat32, kFloat32, kFloat32}},
    {"QUANTIZED_RESAMPLE",
     compile_quantized_resample,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes, kCodes}},
    {"FLOAT_RESAMPLE", compile_float_resample, Arrangement::channels, {kFloat32, kFloat32}},
    {"ELEMENT_WISE_BINARY",
     compile_element_wise_binary,
     Arrangement::element_wise,
     {kFloat32 | kIndices, kFloat32 | kIndices, kFloat32 | kIndices}},
    {"ELEMENT_WISE_UNARY", compile_element_wise_unary, Arrangement::element_wise, {kFloat32, kFloat32}},
    {"FLOAT_TABLE", compile_float_table, Arrangement::element_wise, {kCodes, kFloat32, kFloat32}},
    {"CAST", compile_cast, Arrangement::element_wise, {kCodes | kIndices | kFloat32, kIndices | kFloat32}},
    {"ELEMENT_WISE_LOGICAL",
     compile_element_wise_logical,
     Arrangement::element_wise,
     {kConditions | kIndices | kFloat32, kConditions | kIndices | kFloat32, kConditions}},
    {"ELEMENT_WISE_IF",
     compile_element_wise_if,
     Arrangement::element_wise,
     {kConditions, kAnyType, kAnyType, kAnyType}},
    {"GATHER", compile_gather, Arrangement::own, {kAnyType, kIndices, kAnyType}},
    {"GATHER_ELEMENTS", compile_gather_elements, Arrangement::own, {kAnyType, kIndices, kAnyType}},
    {"ARGMAX", compile_arg_extreme, Arrangement::element_wise, {kCodes | kFloat32, set_of(DataType::int64)}},
    {"ARGMIN", compile_arg_extreme, Arrangement::element_wise, {kCodes | kFloat32, set_of(DataType::int64)}},
    {"CUMULATIVE_SUMMATION", compile_cumulative_summation, Arrangement::own, {kIndices, kIndices}},
};

const FactoryRow& factory_of(const std::string& type) {
  for (const FactoryRow& row : kFactories) {
    if (type == row.type) return row;
  }
  throw std::invalid_argument("no operator is named " + type);
}

void check_layout(const OperatorDesc& desc, const TensorLayout& layout, DataTypes types) {
  if (layout.rank < 1 || layout.rank > kMaxRank) throw std::invalid_argument(desc.type + ": rank out of range");
  if (storage_size(layout.type, 1) == 0 || (set_of(layout.type) & types) == 0) {
    throw std::invalid_argument(desc.type + ": a tensor's data type is none of its kernels'");
  }
  layout.span();
  layout.element_count();
}

}  // namespace

Arrangement operator_arrangement(const std::string& type) { return factory_of(type).arrangement; }

std::unique_ptr<CompiledOperator> compile_operator(OperatorDesc desc, ExecutionTarget target) {
  if (desc.tensors.size() > kMaxTensors) throw std::invalid_argument("an operator has at most 10 tensors");
  const FactoryRow& factory = factory_of(desc.type);
  for (std::size_t i = 0; i < desc.tensors.size(); ++i) {
    if (desc.tensors[i]) check_layout(desc, *desc.tensors[i], factory.tensors[i]);
  }
  return factory.compile(std::move(desc), target);
}

}  // namespace dmlcpu
