// Graphs as Python gives them to be compiled, and others made of them that differ in some sizes, constants and
// attributes.
#pragma once

#include <pybind11/numpy.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace dmlcpu {

// (kind, name of the binding, data_type, sizes, strides if it is not packed), or in place of a constant that is told
// already the array itself, as it lies in memory.
using DescribedRow =
    std::tuple<int, std::string, int, std::vector<std::int64_t>, std::optional<std::vector<std::int64_t>>>;
using ValueRow = std::variant<pybind11::array, DescribedRow>;
// (type, name, inputs, outputs, attributes)
using NodeRow = std::tuple<std::string, std::string, GraphNode::Inputs, GraphNode::Outputs, GraphAttributes>;
// A size that another graph may have otherwise: (value, axis, which of the lengths it is).
using FreeSize = std::tuple<std::size_t, std::size_t, std::size_t>;

// Which elements each value of a graph has, among graphs made of one another or like one another. What initialize is
// given of constants is taken to be the same for all that are made of one another.
class Lineage {
 public:
  // Of values that nothing else has; among graphs like another one, if there is one.
  Lineage(std::size_t values, const Lineage* like)
      : last_(like == nullptr ? std::make_shared<std::atomic<std::uint64_t>>(0) : like->last_),
        origin_(++*last_),
        editions_(values) {
    for (std::size_t i = 0; i < values; ++i) change(i);
  }

  // The value has elements that no other one has.
  void change(std::size_t value) { editions_[value] = ++*last_; }
  // It has those of another graph's value.
  void take(std::size_t value, const Lineage& other, std::size_t from) { editions_[value] = other.editions_[from]; }

  // By value, which one of another graph has its elements, SIZE_MAX for none; nothing if the graphs are not alike.
  std::optional<std::vector<std::size_t>> same_in(const Lineage& other) const;

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> last_;  // edition of all these graphs
  std::uint64_t origin_;                              // of those that are made of one another
  std::vector<std::uint64_t> editions_;               // by value
};

// A graph as it is given, which has been checked, and of which others are made that differ in some sizes, constants and
// attributes.
class GivenGraph {
 public:
  // Values with a free size are packed, but for arrays, which are repeated along axes with one. `like`, if it is not
  // null, is a graph of the same model: where both lie in the same memory, their arrays are known to be the same.
  // Throws std::invalid_argument for other arrays, values that are none, sizes that overflow, free sizes of no axis of
  // a value, and what check_graph refuses.
  GivenGraph(const std::vector<ValueRow>& values, std::vector<NodeRow> nodes, const std::vector<FreeSize>& free,
             const GivenGraph* like);

  // Arrays and attributes may be told that are this graph's: then nothing of them changes. Throws std::out_of_range for
  // numbers of none, std::invalid_argument for too few lengths, arrays of what is given by none here, or has a free
  // size, and what is refused of other graphs, too.
  std::unique_ptr<GivenGraph> changed(const std::vector<std::int64_t>& lengths,
                                      const std::unordered_map<std::size_t, pybind11::array>& arrays,
                                      std::unordered_map<std::size_t, GraphAttributes> attributes) const;

  const Graph& graph() const { return graph_; }
  // Interned; null of what is given by an array.
  const pybind11::object& name(std::size_t value) const { return (*names_)[value]; }
  // By value; none of those that were given by none.
  const std::vector<pybind11::object>& arrays() const { return arrays_; }
  const Lineage& lineage() const { return lineage_; }

 private:
  void take_arrays_of(const GivenGraph& like);

  Graph graph_;
  std::shared_ptr<std::vector<pybind11::object>> names_;  // of what is bound, by value
  std::shared_ptr<const std::vector<FreeSize>> free_;
  std::shared_ptr<std::vector<bool>> has_free_size_;  // by value
  std::size_t lengths_ = 0;                           // so many are needed
  std::vector<pybind11::object> arrays_;
  Lineage lineage_;
};

}  // namespace dmlcpu
