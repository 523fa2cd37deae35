// A graph of operators as it is given to be compiled: values, and nodes that read and write them, in an order in which
// every value is written before it is read.
//
// A node is an operator (operators/operator.h), its tensors numbered as in the desc's struct, inputs before outputs, or
// a view, which computes nothing:
//
//   view         attributes        output
//   TRANSPOSE    permutation       axis i is the input's axis permutation[i]
//   SLICE        starts, steps     index i is the input's starts + i * steps, on every axis
//   RESHAPE                        the same elements in row-major order
//   EXPAND                         axes of length 1 repeated to the output's length
//   JOIN         axis              the inputs one after the other along an axis
//   INTERLEAVE   axis              index i along the axis is index i / n of input i % n, of n inputs
//   REINTERPRET                    the memory of the input as another tensor, both with the strides they were given
//
// Values that nodes write and only nodes read are laid out in memory as the graph's compiler likes best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace dmlcpu {

enum class ValueKind : std::uint8_t {
  input,         // bound at each dispatch
  output,        // bound at each dispatch, written by a node
  constant,      // bound once, at initialize
  intermediate,  // written by a node
};

struct GraphValue {
  ValueKind kind;
  TensorLayout layout;  // strides count for inputs, outputs, constants, and both sides of REINTERPRET
};

using GraphAttributes = std::map<std::string, std::vector<std::int64_t>>;

struct GraphNode {
  std::string type;
  std::string name;                                // for descriptions and profiles
  std::vector<std::optional<std::size_t>> inputs;  // indices of values; empty where an optional one is absent
  std::vector<std::size_t> outputs;
  GraphAttributes attributes;
};

struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
};

bool is_view(const GraphNode& node);
// Whether a view makes a whole of its inputs: JOIN and INTERLEAVE.
bool is_whole(const GraphNode& node);

// Checks everything that memory safety rests on: indices, that each value is written once and before it is read, and
// that the sizes and types of views fit together. (Operators check their own tensors.) Throws std::invalid_argument
// that names the node.
void check_graph(const Graph& graph);

}  // namespace dmlcpu
