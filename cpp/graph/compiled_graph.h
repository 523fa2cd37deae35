// A graph ready to run: its steps compiled, one memory plan, no copy of what was given. It is initialized once with its
// constants, which the steps pack, and then dispatched any number of times, from any number of threads at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "graph/placement.h"
#include "runtime/session_memory.h"

namespace dmlcpu {

// When a step ran, from the beginning of the dispatch.
struct StepTime {
  std::chrono::nanoseconds begin, duration;
};

class CompiledGraph;

// A graph that has been initialized, such as the same one for other lengths. Operators that are the same in both, on
// tensors laid out alike, are compiled and packed once: where few operators depend on what differs, such as a length,
// that is most of the work.
struct Predecessor {
  const CompiledGraph& graph;
  std::vector<std::size_t> same;  // by value: of constants the one there that has the same elements, SIZE_MAX for none
};

class CompiledGraph {
 public:
  // Of a graph that has been checked (check_graph). What is packed of constants, and the memory between the steps, may
  // be shared with other graphs. Throws std::invalid_argument for a graph that cannot be computed, OutOfMemory for one
  // that is beyond any memory.
  CompiledGraph(const Graph& graph, ExecutionTarget target, std::shared_ptr<SessionMemory> shared = nullptr,
                const std::optional<Predecessor>& predecessor = std::nullopt);

  // The address of each value's first element, by value; null for those that are not bound by the call.
  using Pointers = std::vector<void*>;

  // Hands each constant to the steps that read it, which pack it; those of a predecessor have done so. Not concurrent
  // with anything else.
  void initialize(const Pointers& constants);

  // Runs once. bound holds the inputs and outputs. Throws OutOfMemory before any output is written, and
  // std::out_of_range, which names the node, where an index that is computed or bound is none.
  // If times is not null it receives an entry for each step.
  void dispatch(const Pointers& bound, std::vector<StepTime>* times = nullptr) const;

  std::size_t value_count() const { return value_count_; }
  std::size_t step_count() const { return steps_.size(); }
  std::size_t temporary_size() const { return block_bytes_ + scratch_bytes_; }
  std::size_t persistent_size() const;
  // An estimate of what is packed of constants that are not those of the predecessor; 0 where there was none.
  std::size_t changed_constants_size() const;

  struct StepDescription {
    std::string type, name, plan;
    std::size_t bytes;  // that it reads and writes
  };
  std::vector<StepDescription> describe() const;

 private:
  // Where a tensor of an operator is at run time, or of which constant at initialize.
  struct Address {
    std::size_t tensor;
    std::size_t value;  // the bound value, or kBlock for the graph's own block of memory
    std::int64_t offset;
    bool operator==(const Address&) const = default;
  };
  static constexpr std::size_t kBlock = SIZE_MAX;

  struct BlockPart {
    std::size_t offset, bytes;
  };

  struct Operator {
    NodePointer node;
    bool is_copy = false;  // as of a GraphStep
    // Whether `compiled` is a predecessor's operator, which has packed its constants.
    bool initialized = false;
    std::shared_ptr<CompiledOperator> compiled = nullptr;
    // Its addresses among those of the graph: first of what is bound at a dispatch, then of constants.
    std::size_t first_address = 0, first_owned = 0, last_address = 0;
    // Otherwise the predecessor's operator of the same node, if there is one, and which of its constants are the same:
    // what is packed of these may be shared. Null after initialize.
    std::shared_ptr<CompiledOperator> like = nullptr;
    TensorSet same = {};
  };
  struct Step {
    Operator first;
    std::vector<Operator> stages;    // see graph/fusion.h
    std::vector<BlockPart> cleared;  // before it runs
  };

  class Reuse;

  void compile_steps(const PlacedGraph& placed, Reuse& reuse);
  Operator compile(const PlacedGraph& placed, const GraphStep& step, const MemoryPlan& memory, Reuse& reuse);
  std::size_t add_addresses(const PlacedGraph& placed, const GraphStep& step, const MemoryPlan& memory, bool owned);
  void initialize(Operator& of_step, const Pointers& constants) const;
  std::size_t bytes_of(const Step& step) const;
  std::span<const Address> bound_addresses(const Operator& of_step) const;
  std::span<const Address> owned_addresses(const Operator& of_step) const;
  static TensorPointers addresses(std::span<const Address> of_tensors, const Pointers& values, std::uint8_t* block);

  ExecutionTarget target_;
  std::size_t value_count_;
  std::vector<Step> steps_;
  std::vector<Address> addresses_;  // of all operators
  std::size_t block_bytes_ = 0, scratch_bytes_ = 0;
  bool has_predecessor_;
  std::shared_ptr<SessionMemory> shared_;  // null if it is with no other graph
  std::shared_ptr<BlockPool> blocks_;      // of the session, or its own
};

}  // namespace dmlcpu
