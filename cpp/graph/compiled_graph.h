// A graph ready to run: its steps compiled, one memory plan, no copy of what was given. It is initialized once with its
// constants, which the steps pack, and then dispatched any number of times, from any number of threads at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "graph/placement.h"
#include "runtime/aligned_buffer.h"
#include "runtime/shared_buffers.h"

namespace dmlcpu {

// When a step ran, from the beginning of the dispatch.
struct StepTime {
  std::chrono::nanoseconds begin, duration;
};

class CompiledGraph {
 public:
  // Throws std::invalid_argument for a graph that cannot be computed.
  CompiledGraph(Graph graph, ExecutionTarget target);

  // The address of each value's first element, by value; null for those that are not bound by the call.
  using Pointers = std::vector<void*>;

  // Hands each constant to the steps that read it, which keep what they pack of it in shared buffers, if there are any.
  // Not concurrent with anything else.
  void initialize(const Pointers& constants, SharedBuffers* shared = nullptr);

  // Runs once. bound holds the inputs and outputs. Throws std::bad_alloc before any output is written, and
  // std::out_of_range, which names the node, where an index that is computed or bound is none.
  // If times is not null it receives an entry for each step.
  void dispatch(const Pointers& bound, std::vector<StepTime>* times = nullptr) const;

  const std::vector<GraphValue>& values() const { return values_; }
  std::size_t temporary_size() const { return block_bytes_ + scratch_bytes_; }
  std::size_t persistent_size() const;

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
  };
  static constexpr std::size_t kBlock = SIZE_MAX;

  struct Operator {
    std::string type, name;
    std::unique_ptr<CompiledOperator> compiled;
    std::vector<Address> bound, owned;
  };
  struct Step {
    Operator first;
    std::vector<Operator> stages;  // see graph/fusion.h
    std::size_t bytes;
  };

  // A block of memory of one dispatch at a time.
  class Lease;

  void compile_steps(const PlacedGraph& placed, ExecutionTarget target);
  Operator compile(const PlacedGraph& placed, const GraphStep& step, const MemoryPlan& memory,
                   ExecutionTarget target) const;
  static void initialize(const Operator& of_step, const Pointers& constants, SharedBuffers* shared);
  static TensorPointers addresses(const std::vector<Address>& of_tensors, const Pointers& values, std::uint8_t* block);

  std::vector<GraphValue> values_;
  std::vector<Step> steps_;
  std::size_t block_bytes_ = 0, scratch_bytes_ = 0;
  mutable std::atomic_flag list_held_;
  mutable std::vector<AlignedBuffer> free_blocks_;
};

}  // namespace dmlcpu
