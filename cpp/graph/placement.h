// Where the values of a graph lie in memory, and the steps that compute them: views are resolved into strides and
// offsets, or into copies where strides cannot say them.
//
// Layouts. Values around convolutions, poolings and resamplings are laid out with their channels innermost, {N, H, W,
// C}, the others with the last axis innermost; bound values are as they were declared. A value that is joined is
// written straight into its place in the whole, so a concatenation of values that nodes have computed costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace dmlcpu {

// A stretch of memory: a bound value's, or one that the plan allocates.
struct GraphBuffer {
  std::optional<std::size_t> bound;  // the input, output or constant whose memory it is
  std::size_t bytes;
  bool is_cleared = false;  // to zeros before the first step that touches it: what no step writes is read
};

// A tensor in a buffer.
struct Placement {
  std::size_t buffer;
  std::int64_t offset;  // of its first element, in bytes
  TensorLayout layout;
};

// An operator to run, with its tensors in their places.
struct GraphStep {
  NodePointer node;
  bool is_copy;                                   // of what the node, a view, reads; else the node itself
  std::vector<std::optional<Placement>> tensors;  // by tensor number
  std::size_t inputs;                             // how many of them are inputs; the others are outputs
  // Of a stage (graph/fusion.h) the tensor that the step before computes; nothing for a step by itself.
  std::optional<std::size_t> stage_operand = std::nullopt;

  const std::string& type() const;
  const GraphAttributes& attributes() const;
};

struct PlacedGraph {
  std::vector<GraphBuffer> buffers;
  std::vector<GraphStep> steps;
};

// Of a graph that has been checked. Throws std::invalid_argument where a value would be read beyond its memory.
PlacedGraph place_graph(const Graph& graph);

}  // namespace dmlcpu
