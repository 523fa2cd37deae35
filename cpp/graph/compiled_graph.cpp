#include "graph/compiled_graph.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "graph/fusion.h"
#include "runtime/out_of_memory.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Whose memory it is, in messages.
const std::string kName = "graph";

// The steps that touch each buffer that the graph allocates; bound ones take no bytes.
std::vector<BufferUse> buffer_uses(const PlacedGraph& placed) {
  std::vector<BufferUse> uses;
  uses.reserve(placed.buffers.size());
  for (const GraphBuffer& buffer : placed.buffers) {
    uses.push_back({.bytes = buffer.bound ? 0 : buffer.bytes, .first_step = SIZE_MAX, .last_step = 0});
  }
  for (std::size_t step = 0; step < placed.steps.size(); ++step) {
    for (const std::optional<Placement>& tensor : placed.steps[step].tensors) {
      if (!tensor) continue;
      BufferUse& use = uses[tensor->buffer];
      use.first_step = std::min(use.first_step, step);
      use.last_step = step;
    }
  }
  return uses;
}

ExecutionTarget aligning_tensors(ExecutionTarget target) {
  target.aligns_tensors = true;
  return target;
}

// Tells the layouts of all steps which tensors are outputs, and which constants: as descs have it.
void mark_tensors(const Graph& graph, PlacedGraph& placed) {
  for (GraphStep& step : placed.steps) {
    for (std::size_t i = 0; i < step.tensors.size(); ++i) {
      if (!step.tensors[i]) continue;
      const std::optional<std::size_t>& bound = placed.buffers[step.tensors[i]->buffer].bound;
      TensorLayout& layout = step.tensors[i]->layout;
      layout.output = i >= step.inputs;
      layout.owned = bound && graph.values[*bound].kind == ValueKind::constant;
    }
  }
}

// Elements that a stride of 0 repeats count once.
std::size_t bytes_in_memory(const TensorLayout& layout) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (layout.strides[axis] != 0) count *= layout.sizes[axis];
  }
  return storage_size(layout.type, count);
}

}  // namespace

std::span<const CompiledGraph::Address> CompiledGraph::bound_addresses(const Operator& of_step) const {
  return std::span(addresses_).subspan(of_step.first_address, of_step.first_owned - of_step.first_address);
}

std::span<const CompiledGraph::Address> CompiledGraph::owned_addresses(const Operator& of_step) const {
  return std::span(addresses_).subspan(of_step.first_owned, of_step.last_address - of_step.first_owned);
}

TensorPointers CompiledGraph::addresses(std::span<const Address> of_tensors, const Pointers& values,
                                        std::uint8_t* block) {
  TensorPointers tensors{};
  for (const Address& address : of_tensors) {
    auto* base = static_cast<std::uint8_t*>(address.value == kBlock ? block : values[address.value]);
    tensors[address.tensor] = base + address.offset;
  }
  return tensors;
}

// Finds the operators of a predecessor that are those of a graph's steps. Both come in the same order, as far as they
// have the same steps: a view may have become a copy.
class CompiledGraph::Reuse {
 public:
  Reuse(const std::optional<Predecessor>& predecessor, ExecutionTarget target) {
    if (!predecessor || predecessor->graph.target_ != target) return;
    other_ = &predecessor->graph;
    same_ = &predecessor->same;
    operators_.reserve(other_->steps_.size());
    for (const Step& step : other_->steps_) {
      operators_.push_back(&step.first);
      for (const Operator& stage : step.stages) operators_.push_back(&stage);
    }
  }

  // Gives a step's operator, which owns these constants, the one of the same desc, if there is one that owns the same;
  // else that one as one like it.
  void find(Operator& wanted, const GraphStep& step, std::span<const Address> owned) {
    const auto found = std::find_if(operators_.begin() + next_, operators_.end(), [&](const Operator* other) {
      return other->is_copy == wanted.is_copy && is_same_node(*other->node, *wanted.node);
    });
    if (found == operators_.end()) return;
    next_ = found - operators_.begin() + 1;
    const Operator& other = **found;
    const std::span<const Address> others = other_->owned_addresses(other);
    for (const Address& address : owned) {
      const Address there{address.tensor, (*same_)[address.value], address.offset};
      wanted.same[address.tensor] = std::ranges::find(others, there) != others.end();
    }
    wanted.initialized = wanted.same.count() == owned.size() && has_desc_of(step, *other.node, other.compiled->desc());
    (wanted.initialized ? wanted.compiled : wanted.like) = other.compiled;
  }

 private:
  // In graphs of different attributes, too.
  static bool is_same_node(const GraphNode& a, const GraphNode& b) {
    return &a == &b || (a.name == b.name && a.type == b.type);
  }

  static bool has_desc_of(const GraphStep& step, const GraphNode& compiled_from, const OperatorDesc& desc) {
    const auto same_tensor = [](const std::optional<Placement>& place, const std::optional<TensorLayout>& layout) {
      return place.has_value() == layout.has_value() && (!place || place->layout == *layout);
    };
    return std::ranges::equal(step.tensors, desc.tensors, same_tensor) &&
           (step.node.get() == &compiled_from || step.attributes() == desc.attributes);
  }

  const CompiledGraph* other_ = nullptr;
  const std::vector<std::size_t>* same_ = nullptr;
  std::vector<const Operator*> operators_;
  std::ptrdiff_t next_ = 0;
};

CompiledGraph::CompiledGraph(const Graph& graph, ExecutionTarget target, std::shared_ptr<SessionMemory> shared,
                             const std::optional<Predecessor>& predecessor)
    : target_(aligning_tensors(target)),
      value_count_(graph.values.size()),
      has_predecessor_(predecessor.has_value()),
      shared_(std::move(shared)),
      blocks_(shared_ ? std::shared_ptr<BlockPool>(shared_, &shared_->blocks) : std::make_shared<BlockPool>()) {
  PlacedGraph placed = place_graph(graph);
  fuse_steps(placed);
  mark_tensors(graph, placed);
  Reuse reuse(predecessor, target_);
  compile_steps(placed, reuse);
}

void CompiledGraph::compile_steps(const PlacedGraph& placed, Reuse& reuse) {
  const std::vector<BufferUse> uses = buffer_uses(placed);
  const MemoryPlan memory = with_memory_for(kName, [&] { return plan_memory(uses); });
  std::vector<std::size_t> cleared;  // buffers
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (placed.buffers[i].is_cleared) cleared.push_back(i);
  }
  block_bytes_ = memory.bytes;
  steps_.reserve(placed.steps.size());
  std::size_t tensors = 0;
  for (const GraphStep& step : placed.steps) tensors += step.tensors.size();
  addresses_.reserve(tensors);
  for (std::size_t number = 0; number < placed.steps.size(); ++number) {
    const GraphStep& from = placed.steps[number];
    if (!from.stage_operand) steps_.emplace_back();
    Step& step = steps_.back();
    Operator& compiled = from.stage_operand ? step.stages.emplace_back() : step.first;
    compiled = compile(placed, from, memory, reuse);
    scratch_bytes_ = std::max(scratch_bytes_, compiled.compiled->temporary_size());
    for (const std::size_t i : cleared) {
      if (uses[i].first_step == number) step.cleared.push_back({memory.offsets[i], placed.buffers[i].bytes});
    }
  }
}

// Of the tensors that are owned, or of the others; returns how many addresses there are then.
std::size_t CompiledGraph::add_addresses(const PlacedGraph& placed, const GraphStep& step, const MemoryPlan& memory,
                                         bool owned) {
  for (std::size_t i = 0; i < step.tensors.size(); ++i) {
    // The null pointer of the tensor that a stage finds stands for the codes at hand.
    if (!step.tensors[i] || step.tensors[i]->layout.owned != owned || step.stage_operand == i) continue;
    const Placement& place = *step.tensors[i];
    const std::optional<std::size_t>& bound = placed.buffers[place.buffer].bound;
    const std::size_t offset = bound ? 0 : memory.offsets[place.buffer];
    addresses_.push_back({i, bound.value_or(kBlock), static_cast<std::int64_t>(offset) + place.offset});
  }
  return addresses_.size();
}

CompiledGraph::Operator CompiledGraph::compile(const PlacedGraph& placed, const GraphStep& step,
                                               const MemoryPlan& memory, Reuse& reuse) {
  Operator compiled{.node = step.node, .is_copy = step.is_copy};
  compiled.first_address = addresses_.size();
  compiled.first_owned = add_addresses(placed, step, memory, false);
  compiled.last_address = add_addresses(placed, step, memory, true);
  reuse.find(compiled, step, owned_addresses(compiled));
  if (compiled.initialized) return compiled;
  OperatorDesc desc{.type = step.type(), .tensors = {}, .attributes = step.attributes()};
  desc.tensors.reserve(step.tensors.size());
  for (const std::optional<Placement>& place : step.tensors) {
    desc.tensors.push_back(place ? std::optional(place->layout) : std::nullopt);
  }
  try {
    compiled.compiled = compile_operator(std::move(desc), target_);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("node " + step.node->name + ": " + error.what());
  }
  return compiled;
}

void CompiledGraph::initialize(Operator& of_step, const Pointers& constants) const {
  if (owned_addresses(of_step).empty() || of_step.initialized) return;
  of_step.compiled->initialize(addresses(owned_addresses(of_step), constants, nullptr),
                               shared_ ? &shared_->constants : nullptr, of_step.like.get(), of_step.same);
  of_step.like.reset();
}

void CompiledGraph::initialize(const Pointers& constants) {
  for (Step& step : steps_) {
    initialize(step.first, constants);
    for (Operator& stage : step.stages) initialize(stage, constants);
  }
}

void CompiledGraph::dispatch(const Pointers& bound, std::vector<StepTime>* times) const {
  using Clock = std::chrono::steady_clock;
  const BusyThread busy;
  const BlockLease block = with_memory_for(kName, [&] { return BlockLease(*blocks_, block_bytes_); });
  // The steps' own calls allocate nothing now.
  with_memory_for(kName, [&] {
    thread_scratch(scratch_bytes_);
    if (times != nullptr) times->reserve(times->size() + steps_.size());
  });
  const Clock::time_point begin = Clock::now();
  std::array<ElementStage, kMostStages> stages;
  for (const Step& step : steps_) {
    const Clock::time_point started = times == nullptr ? begin : Clock::now();
    for (const BlockPart& part : step.cleared) std::memset(block.data() + part.offset, 0, part.bytes);
    for (std::size_t i = 0; i < step.stages.size(); ++i) {
      stages[i] = step.stages[i].compiled->stage(addresses(bound_addresses(step.stages[i]), bound, block.data()));
    }
    try {
      step.first.compiled->dispatch(addresses(bound_addresses(step.first), bound, block.data()),
                                    std::span(stages).first(step.stages.size()));
    } catch (const std::out_of_range& error) {  // an index
      throw std::out_of_range("node " + step.first.node->name + ": " + error.what());
    }
    if (times != nullptr) times->push_back({started - begin, Clock::now() - started});
  }
}

std::size_t CompiledGraph::persistent_size() const {
  std::size_t size = 0;
  for (const Step& step : steps_) {
    size += step.first.compiled->persistent_size();
    for (const Operator& stage : step.stages) size += stage.compiled->persistent_size();
  }
  return size;
}

// As many bytes as each such constant has: several steps that read it share what they pack of it.
std::size_t CompiledGraph::changed_constants_size() const {
  if (!has_predecessor_) return 0;
  std::vector<std::size_t> bytes(value_count_);
  const auto count = [&](const Operator& of_step) {
    if (of_step.initialized) return;
    for (const Address& address : owned_addresses(of_step)) {
      if (of_step.same[address.tensor]) continue;
      std::size_t& of_value = bytes[address.value];
      of_value = std::max(of_value, of_step.compiled->desc().tensors[address.tensor]->span_bytes());
    }
  };
  for (const Step& step : steps_) {
    count(step.first);
    std::ranges::for_each(step.stages, count);
  }
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

std::size_t CompiledGraph::bytes_of(const Step& step) const {
  std::size_t bytes = 0;
  for (const std::optional<TensorLayout>& tensor : step.first.compiled->desc().tensors) {
    if (tensor) bytes += bytes_in_memory(*tensor);
  }
  for (const Operator& stage : step.stages) {
    // What it finds and leaves in the output has been counted; what it finds has no address.
    for (std::size_t i = stage.first_address; i < stage.last_address; ++i) {
      const TensorLayout& tensor = *stage.compiled->desc().tensors[addresses_[i].tensor];
      if (!tensor.output) bytes += bytes_in_memory(tensor);
    }
  }
  return bytes;
}

std::vector<CompiledGraph::StepDescription> CompiledGraph::describe() const {
  std::vector<StepDescription> steps;
  for (const Step& step : steps_) {
    std::string plan = step.first.compiled->describe();
    for (const Operator& stage : step.stages) plan += "\nwith " + stage.node->type + " (" + stage.node->name + ")";
    steps.push_back({step.first.compiled->desc().type, step.first.node->name, std::move(plan), bytes_of(step)});
  }
  return steps;
}

}  // namespace dmlcpu
