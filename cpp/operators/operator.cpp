#include "operators/operator.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "operators/operator_table.h"
#include "runtime/float_environment.h"
#include "runtime/out_of_memory.h"
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
    if (sizes[axis] < 1) throw std::invalid_argument("a tensor has a size below 1");
    if (strides[axis] < 0 || __builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > INT64_MAX / 16) {
      throw std::invalid_argument("the sizes and strides of a tensor overflow");
    }
  }
  return last + 1;
}

bool TensorLayout::operator==(const TensorLayout& other) const {
  if (type != other.type || rank != other.rank || owned != other.owned || output != other.output) return false;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] != other.sizes[axis] || strides[axis] != other.strides[axis]) return false;
  }
  return true;
}

const TensorLayout& OperatorDesc::tensor(std::size_t index) const {
  if (index >= tensors.size() || !tensors[index]) throw std::invalid_argument(type + " lacks a required tensor");
  return *tensors[index];
}

const std::optional<TensorLayout>& OperatorDesc::optional_tensor(std::size_t index) const {
  static const std::optional<TensorLayout> kNone;
  return index < tensors.size() ? tensors[index] : kNone;
}

const std::vector<std::int64_t>& OperatorDesc::attribute(const std::string& name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.empty()) throw std::invalid_argument(type + " lacks " + name);
  return found->second;
}

// Smaller buffers are not worth the search for others like them.
constexpr std::size_t kLeastShared = 1024;

CompiledOperator::CompiledOperator(OperatorDesc&& desc, ExecutionTarget target)
    : desc_(std::move(desc)), target_(target) {}

CompiledOperator::~CompiledOperator() = default;

std::optional<AlignedBuffer> CompiledOperator::pack_owned(std::size_t, const void*) const { return std::nullopt; }

std::size_t CompiledOperator::packed_owned_size(std::size_t tensor) const {
  return desc_.tensors[tensor]->span_bytes();
}

void CompiledOperator::prepare_owned(const TensorPointers&, std::uint8_t*) const {}

TensorSet CompiledOperator::present(std::initializer_list<std::size_t> numbers) const {
  TensorSet tensors;
  for (const std::size_t number : numbers) {
    if (number < desc_.tensors.size() && desc_.tensors[number]) tensors.set(number);
  }
  return tensors;
}

bool CompiledOperator::all_owned(TensorSet tensors) const {
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    if (tensors[i] && !desc_.tensors[i]->owned) return false;
  }
  return true;
}

std::vector<std::size_t> CompiledOperator::packing(std::size_t) const { return {0}; }

bool CompiledOperator::packs_as(const CompiledOperator& other, std::size_t tensor) const {
  if (desc_.type != other.desc_.type || target_ != other.target_ || tensor >= other.desc_.tensors.size() ||
      desc_.tensors[tensor] != other.desc_.tensors[tensor] || other.owned_[tensor] == nullptr) {
    return false;
  }
  const std::vector<std::size_t> numbers = packing(tensor);
  return !numbers.empty() && numbers == other.packing(tensor);
}

void CompiledOperator::initialize(const TensorPointers& owned, SharedBuffers* shared, const CompiledOperator* like,
                                  TensorSet same) {
  const DefaultFloatEnvironment environment;
  with_memory_for(desc_.type, [&] { keep_owned(owned, shared, like, same); });
}

void CompiledOperator::keep_owned(const TensorPointers& owned, SharedBuffers* shared, const CompiledOperator* like,
                                  TensorSet same) {
  const TensorSet passing = prepared_only();
  std::array<std::shared_ptr<const AlignedBuffer>, kMaxTensors> kept;
  TensorPointers pointers{};
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    const std::optional<TensorLayout>& layout = desc_.tensors[i];
    if (!layout || !layout->owned) continue;
    if (passing[i]) {
      pointers[i] = owned[i];
      continue;
    }
    if (like != nullptr && same[i] && packs_as(*like, i)) {
      kept[i] = like->owned_[i];
      pointers[i] = like->owned_pointers_[i];
      continue;
    }
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
  for (std::size_t i = 0; i < kMaxTensors; ++i) {
    if (passing[i]) pointers[i] = nullptr;
  }
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

void CompiledOperator::dispatch(const TensorPointers& bound, std::span<const ElementStage> stages) const {
  const DefaultFloatEnvironment environment;
  const BusyThread busy;
  with_memory_for(desc_.type,
                  [&] { stages.empty() ? run(with_owned(bound)) : run_with_stages(with_owned(bound), stages); });
}

ElementStage CompiledOperator::stage(const TensorPointers& bound) const {
  const DefaultFloatEnvironment environment;
  return make_stage(with_owned(bound));
}

void CompiledOperator::run_with_stages(const TensorPointers&, std::span<const ElementStage>) const {
  throw std::logic_error(desc_.type + " takes no stages");
}

ElementStage CompiledOperator::make_stage(const TensorPointers&) const {
  throw std::logic_error(desc_.type + " is no stage");
}

std::size_t CompiledOperator::persistent_size() const {
  const TensorSet passing = prepared_only();
  std::size_t size = prepared_size();
  for (std::size_t i = 0; i < desc_.tensors.size(); ++i) {
    if (desc_.tensors[i] && desc_.tensors[i]->owned && !passing[i]) size += packed_owned_size(i);
  }
  return size;
}

namespace {

// Made when the library is loaded: were it at the first use, a fork() amid that would leave the child waiting.
const auto kRows = [] {
  std::unordered_map<std::string_view, const OperatorRow*> rows;
  for (const OperatorRow& row : kOperators) rows.emplace(row.type, &row);
  return rows;
}();

const OperatorRow& row_of(const std::string& type) {
  const auto found = kRows.find(type);
  if (found == kRows.end()) throw std::invalid_argument("no operator is named " + type);
  return *found->second;
}

void check_layout(const OperatorDesc& desc, std::size_t tensor, const OperatorRow& row) {
  const TensorLayout& layout = *desc.tensors[tensor];
  if (layout.rank < 1 || layout.rank > kMaxRank) throw std::invalid_argument(desc.type + ": rank out of range");
  // Outputs alone are known to be memory that may be written.
  if (layout.output != row.is_output(tensor)) {
    throw std::invalid_argument(desc.type + ": an input bound as an output, or an output as an input");
  }
  if (layout.output && layout.owned) throw std::invalid_argument(desc.type + ": an output is owned");
  if (storage_size(layout.type, 1) == 0 || (set_of(layout.type) & row.types(tensor)) == 0) {
    throw std::invalid_argument(desc.type + ": a tensor's data type is none of its kernels'");
  }
  // Other strides that meet are left to whoever made the desc: they make wrong results, but reach no other memory.
  bool repeats = layout.span() < layout.element_count();
  for (std::size_t axis = 0; axis < layout.rank; ++axis) repeats |= layout.sizes[axis] > 1 && layout.strides[axis] == 0;
  if (repeats && layout.output) {
    throw std::invalid_argument(desc.type + ": elements of an output are written to one place");
  }
}

}  // namespace

Arrangement operator_arrangement(const std::string& type) { return row_of(type).arrangement; }

const StageRole& operator_stage_role(const std::string& type) { return row_of(type).stage_role; }

std::unique_ptr<CompiledOperator> compile_operator(OperatorDesc desc, ExecutionTarget target) {
  const DefaultFloatEnvironment environment;
  if (target.num_threads < 1 || target.num_threads > kMostThreads) {
    throw std::invalid_argument("threads are 1 to " + std::to_string(kMostThreads));
  }
  if (desc.tensors.size() > kMaxTensors) {
    throw std::invalid_argument("an operator has at most " + std::to_string(kMaxTensors) + " tensors");
  }
  const OperatorRow& row = row_of(desc.type);
  for (std::size_t i = 0; i < desc.tensors.size(); ++i) {
    if (desc.tensors[i]) check_layout(desc, i, row);
  }
  return with_memory_for(std::string(row.type), [&] { return row.compile(std::move(desc), target); });
}

}  // namespace dmlcpu
