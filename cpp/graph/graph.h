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
//   REINTERPRET                    the memory of the input as another tensor, both with the strides they were given,
//                                  which may reach bytes between or behind the input's elements: in an array, or where
//                                  the input is a part of another value, they are what lies there; in the memory of a
//                                  value that a node writes they are zeros
//
// Values that nodes write and only nodes read are laid out in memory as the graph's compiler likes best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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

enum class View : std::uint8_t { none, transpose, slice, reshape, expand, join, interleave, reinterpret };

struct GraphNode {
  using Inputs = std::vector<std::optional<std::size_t>>;
  using Outputs = std::vector<std::size_t>;

  // Throws std::invalid_argument where neither an operator nor a view is of that type.
  GraphNode(std::string type, std::string name, Inputs inputs, Outputs outputs, GraphAttributes attributes);

  bool is_view() const { return view != View::none; }
  // Whether it is a view that puts its inputs together.
  bool joins_inputs() const { return view == View::join || view == View::interleave; }

  std::string type;
  std::string name;  // for descriptions and profiles
  Inputs inputs;     // indices of values; empty where an optional one is absent
  Outputs outputs;
  GraphAttributes attributes;
  // These follow from the type.
  View view;
  Arrangement arrangement;
  StageRole stage_role;  // none of a view
};

// Graphs for other lengths have most nodes in common.
using NodePointer = std::shared_ptr<const GraphNode>;

struct Graph {
  std::vector<GraphValue> values;
  std::vector<NodePointer> nodes;
};

// Checks everything that memory safety rests on: indices, that each value is written once and before it is read, and
// that the sizes and types of views fit together. (Operators check their own tensors.) Throws std::invalid_argument,
// which names the node where it is one.
void check_graph(const Graph& graph);

// The same of a graph that was checked, and has got other layouts of these values since, or other nodes, which differ
// in their attributes, in these places.
struct GraphChanges {
  std::vector<bool> values, nodes;
};
void check_changes(const Graph& graph, const GraphChanges& changes);

}  // namespace dmlcpu
