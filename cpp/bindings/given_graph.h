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

// Which elements each value of a graph has, among graphs made of one another. What initialize is given of constants is
// taken to be the same for all.
class Lineage {
 public:
  explicit Lineage(std::size_t values) : last_(std::make_shared<std::atomic<std::uint64_t>>(0)), editions_(values) {}

  // The value has elements that none of its predecessors had.
  void change(std::size_t value) { editions_[value] = ++*last_; }

  // The values of a graph that may not be those of another one; nothing if they are not made of one another.
  std::optional<std::vector<bool>> changed_from(const Lineage& other) const {
    if (last_ != other.last_) return std::nullopt;
    std::vector<bool> changed(editions_.size());
    for (std::size_t i = 0; i < changed.size(); ++i) changed[i] = editions_[i] != other.editions_[i];
    return changed;
  }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> last_;  // edition of all graphs made of one another
  std::vector<std::uint64_t> editions_;               // by value
};

// A graph as it is given, which has been checked, and of which others are made that differ in some sizes, constants and
// attributes.
class GivenGraph {
 public:
  // Values with a free size are packed, but for arrays, which are repeated along axes with one. Throws
  // std::invalid_argument for other arrays, values that are none, sizes that overflow, free sizes of no axis of a
  // value, and what check_graph refuses.
  GivenGraph(const std::vector<ValueRow>& values, std::vector<NodeRow> nodes, const std::vector<FreeSize>& free);

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
  Graph graph_;
  std::shared_ptr<std::vector<pybind11::object>> names_;  // of what is bound, by value
  std::shared_ptr<const std::vector<FreeSize>> free_;
  std::shared_ptr<std::vector<bool>> has_free_size_;  // by value
  std::size_t lengths_ = 0;                           // so many are needed
  std::vector<pybind11::object> arrays_;
  Lineage lineage_;
};

}  // namespace dmlcpu
