#include "graph/compiled_graph.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "graph/fusion.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// The steps that touch each buffer that the graph allocates; bound ones take no bytes.
std::vector<BufferUse> buffer_uses(const PlacedGraph& placed) {
  std::vector<BufferUse> uses;
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

}  // namespace

// Takes a free block, or allocates one, and gives it back. As many are kept as there were dispatches at once.
//
// Nobody waits long for the list of free blocks: in a child of fork() the thread that holds it may not exist. Who does
// not get it allocates a block, and frees it again.
class CompiledGraph::Lease {
 public:
  explicit Lease(const CompiledGraph& graph) : graph_(graph) {
    if (hold_list()) {
      const bool found = !graph.free_blocks_.empty();
      if (found) {
        block_ = std::move(graph.free_blocks_.back());
        graph.free_blocks_.pop_back();
      }
      release_list();
      if (found) return;
    }
    block_ = AlignedBuffer(graph.block_bytes_);
  }
  ~Lease() {
    if (!hold_list()) return;
    try {
      graph_.free_blocks_.push_back(std::move(block_));
    } catch (const std::bad_alloc&) {  // then it is freed
    }
    release_list();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::uint8_t* data() const { return block_.data(); }

 private:
  // Threads hold the list for some tens of nanoseconds: this is many times as long.
  static constexpr int kAttempts = 2000;

  bool hold_list() const noexcept {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (!graph_.list_held_.test_and_set(std::memory_order_acquire)) return true;
    }
    return false;
  }
  void release_list() const noexcept { graph_.list_held_.clear(std::memory_order_release); }

  const CompiledGraph& graph_;
  AlignedBuffer block_;
};

TensorPointers CompiledGraph::addresses(const std::vector<Address>& of_tensors, const Pointers& values,
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
    changed_ = &predecessor->changed;
    for (const Step& step : predecessor->graph.steps_) {
      operators_.push_back(&step.first);
      for (const Operator& stage : step.stages) operators_.push_back(&stage);
    }
  }

  // Gives an operator of a desc the one of the same desc, if there is one that owns the same constants; else that one
  // as one like it.
  void find(Operator& wanted, const OperatorDesc& desc) {
    const auto found = std::find_if(operators_.begin() + next_, operators_.end(), [&](const Operator* other) {
      return other->name == wanted.name && other->type == wanted.type;
    });
    if (found == operators_.end()) return;
    next_ = found - operators_.begin() + 1;
    const Operator& other = **found;
    for (const Address& address : wanted.owned) {
      wanted.same[address.tensor] =
          !(*changed_)[address.value] && std::ranges::find(other.owned, address) != other.owned.end();
    }
    wanted.initialized = wanted.same.count() == wanted.owned.size() && other.compiled->desc() == desc;
    (wanted.initialized ? wanted.compiled : wanted.like) = other.compiled;
  }

 private:
  const std::vector<bool>* changed_ = nullptr;
  std::vector<const Operator*> operators_;
  std::ptrdiff_t next_ = 0;
};

CompiledGraph::CompiledGraph(const Graph& graph, ExecutionTarget target, const std::optional<Predecessor>& predecessor)
    : target_(target), value_count_(graph.values.size()) {
  PlacedGraph placed = place_graph(graph);
  fuse_steps(placed);
  Reuse reuse(predecessor, target);
  compile_steps(graph, placed, reuse);
}

void CompiledGraph::compile_steps(const Graph& graph, const PlacedGraph& placed, Reuse& reuse) {
  const MemoryPlan memory = plan_memory(buffer_uses(placed));
  block_bytes_ = memory.bytes;
  for (const GraphStep& from : placed.steps) {
    Operator compiled = compile(graph, placed, from, memory, reuse);
    scratch_bytes_ = std::max(scratch_bytes_, compiled.compiled->temporary_size());
    if (!from.stage_operand) steps_.push_back({.first = {}, .stages = {}, .bytes = 0});
    Step& step = steps_.back();
    for (std::size_t i = 0; i < from.tensors.size(); ++i) {
      // What a stage finds and leaves in the output has been counted.
      if (!from.tensors[i] || (from.stage_operand && (i == *from.stage_operand || i >= from.inputs))) continue;
      const TensorLayout& layout = from.tensors[i]->layout;
      step.bytes += storage_size(layout.type, layout.element_count());
    }
    if (from.stage_operand) {
      // Its null pointer stands for the codes at hand.
      std::erase_if(compiled.bound, [&](const Address& address) { return address.tensor == *from.stage_operand; });
      step.stages.push_back(std::move(compiled));
    } else {
      step.first = std::move(compiled);
    }
  }
}

CompiledGraph::Operator CompiledGraph::compile(const Graph& graph, const PlacedGraph& placed, const GraphStep& step,
                                               const MemoryPlan& memory, Reuse& reuse) const {
  Operator compiled{
      .type = step.type, .name = step.name, .compiled = nullptr, .bound = {}, .owned = {}, .like = nullptr, .same = {}};
  OperatorDesc desc{.type = step.type, .tensors = {}, .attributes = step.attributes};
  for (std::size_t i = 0; i < step.tensors.size(); ++i) {
    desc.tensors.emplace_back();
    if (!step.tensors[i]) continue;
    const Placement& place = *step.tensors[i];
    const std::optional<std::size_t>& bound = placed.buffers[place.buffer].bound;
    const std::size_t offset = bound ? 0 : memory.offsets[place.buffer];
    desc.tensors[i] = place.layout;
    desc.tensors[i]->output = i >= step.inputs;
    desc.tensors[i]->owned = bound && graph.values[*bound].kind == ValueKind::constant;
    (desc.tensors[i]->owned ? compiled.owned : compiled.bound)
        .push_back({i, bound.value_or(kBlock), static_cast<std::int64_t>(offset) + place.offset});
  }
  reuse.find(compiled, desc);
  if (compiled.initialized) return compiled;
  try {
    compiled.compiled = compile_operator(std::move(desc), target_);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("node " + step.name + ": " + error.what());
  }
  return compiled;
}

void CompiledGraph::initialize(Operator& of_step, const Pointers& constants, SharedBuffers* shared) {
  if (of_step.owned.empty() || of_step.initialized) return;
  of_step.compiled->initialize(addresses(of_step.owned, constants, nullptr), shared, of_step.like.get(), of_step.same);
  of_step.like.reset();
}

void CompiledGraph::initialize(const Pointers& constants, SharedBuffers* shared) {
  for (Step& step : steps_) {
    initialize(step.first, constants, shared);
    for (Operator& stage : step.stages) initialize(stage, constants, shared);
  }
}

void CompiledGraph::dispatch(const Pointers& bound, std::vector<StepTime>* times) const {
  using Clock = std::chrono::steady_clock;
  const BusyThread busy;
  const Lease block(*this);
  thread_scratch(scratch_bytes_);  // the steps' own calls allocate nothing now
  const Clock::time_point begin = Clock::now();
  std::array<CodeStage, kMostStages> stages;
  for (const Step& step : steps_) {
    const Clock::time_point started = times == nullptr ? begin : Clock::now();
    for (std::size_t i = 0; i < step.stages.size(); ++i) {
      stages[i] = step.stages[i].compiled->stage(addresses(step.stages[i].bound, bound, block.data()));
    }
    try {
      step.first.compiled->dispatch(addresses(step.first.bound, bound, block.data()),
                                    std::span(stages).first(step.stages.size()));
    } catch (const std::out_of_range& error) {  // an index
      throw std::out_of_range("node " + step.first.name + ": " + error.what());
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

std::vector<CompiledGraph::StepDescription> CompiledGraph::describe() const {
  std::vector<StepDescription> steps;
  for (const Step& step : steps_) {
    std::string plan = step.first.compiled->describe();
    for (const Operator& stage : step.stages) plan += "\nwith " + stage.type + " (" + stage.name + ")";
    steps.push_back({step.first.type, step.first.name, std::move(plan), step.bytes});
  }
  return steps;
}

}  // namespace dmlcpu
