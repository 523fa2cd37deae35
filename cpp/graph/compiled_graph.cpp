#include "graph/compiled_graph.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "graph/memory_plan.h"
#include "runtime/scratch.h"

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
class CompiledGraph::Lease {
 public:
  explicit Lease(const CompiledGraph& graph) : graph_(graph) {
    {
      const std::lock_guard lock(graph.mutex_);
      if (!graph.free_blocks_.empty()) {
        block_ = std::move(graph.free_blocks_.back());
        graph.free_blocks_.pop_back();
        return;
      }
      graph.free_blocks_.reserve(++graph.blocks_);  // so that giving it back cannot fail
    }
    block_ = AlignedBuffer(graph.block_bytes_);
  }
  ~Lease() {
    const std::lock_guard lock(graph_.mutex_);
    graph_.free_blocks_.push_back(std::move(block_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::uint8_t* data() const { return block_.data(); }

 private:
  const CompiledGraph& graph_;
  AlignedBuffer block_;
};

CompiledGraph::CompiledGraph(Graph graph, ExecutionTarget target) {
  const PlacedGraph placed = place_graph(graph);
  values_ = std::move(graph.values);
  compile_steps(placed, target);
}

void CompiledGraph::compile_steps(const PlacedGraph& placed, ExecutionTarget target) {
  const MemoryPlan memory = plan_memory(buffer_uses(placed));
  block_bytes_ = memory.bytes;
  for (const GraphStep& from : placed.steps) {
    Step step = {.type = from.type, .name = from.name, .compiled = nullptr, .tensors = {}, .bytes = 0};
    OperatorDesc desc{.type = from.type, .tensors = {}, .attributes = from.attributes};
    for (std::size_t i = 0; i < from.tensors.size(); ++i) {
      desc.tensors.emplace_back();
      step.tensors.emplace_back();
      if (!from.tensors[i]) continue;
      const Placement& place = *from.tensors[i];
      const std::optional<std::size_t>& bound = placed.buffers[place.buffer].bound;
      const std::size_t offset = bound ? 0 : memory.offsets[place.buffer];
      step.tensors[i] = Address{bound.value_or(kBlock), static_cast<std::int64_t>(offset) + place.offset};
      desc.tensors[i] = place.layout;
      desc.tensors[i]->output = i >= from.inputs;
      desc.tensors[i]->owned = bound && values_[*bound].kind == ValueKind::constant;
      step.bytes += static_cast<std::size_t>(place.layout.element_count()) * element_size(place.layout.type);
    }
    try {
      step.compiled = compile_operator(std::move(desc), target);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("node " + from.name + ": " + error.what());
    }
    scratch_bytes_ = std::max(scratch_bytes_, step.compiled->temporary_size());
    steps_.push_back(std::move(step));
  }
}

void CompiledGraph::initialize(const Pointers& constants) {
  for (const Step& step : steps_) {
    TensorPointers owned{};
    bool any = false;
    for (std::size_t i = 0; i < step.tensors.size(); ++i) {
      const std::optional<TensorLayout>& layout = step.compiled->desc().tensors[i];
      if (!layout || !layout->owned) continue;
      owned[i] = static_cast<std::uint8_t*>(constants[step.tensors[i]->value]) + step.tensors[i]->offset;
      any = true;
    }
    if (any) step.compiled->initialize(owned);
  }
}

void CompiledGraph::dispatch(const Pointers& bound, std::vector<StepTime>* times) const {
  using Clock = std::chrono::steady_clock;
  const Lease block(*this);
  thread_scratch(scratch_bytes_);  // the steps' own calls allocate nothing now
  const Clock::time_point begin = Clock::now();
  for (const Step& step : steps_) {
    TensorPointers tensors{};
    for (std::size_t i = 0; i < step.tensors.size(); ++i) {
      if (!step.tensors[i]) continue;
      const Address& address = *step.tensors[i];
      auto* base = static_cast<std::uint8_t*>(address.value == kBlock ? block.data() : bound[address.value]);
      tensors[i] = base == nullptr ? nullptr : base + address.offset;
    }
    const Clock::time_point started = times == nullptr ? begin : Clock::now();
    step.compiled->dispatch(tensors);
    if (times != nullptr) times->push_back({started - begin, Clock::now() - started});
  }
}

std::size_t CompiledGraph::persistent_size() const {
  std::size_t size = 0;
  for (const Step& step : steps_) size += step.compiled->persistent_size();
  return size;
}

std::vector<CompiledGraph::StepDescription> CompiledGraph::describe() const {
  std::vector<StepDescription> steps;
  for (const Step& step : steps_) steps.push_back({step.type, step.name, step.compiled->describe(), step.bytes});
  return steps;
}

}  // namespace dmlcpu
