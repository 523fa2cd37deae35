#include "bindings/given_graph.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.h"
#include "operators/strides/packed_layout.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

GraphValue value_of(const py::array& array) {
  GraphValue value{.kind = ValueKind::constant, .layout = tensor_layout(array)};
  value.layout.owned = true;
  return value;
}

GraphValue value_of(const DescribedRow& row) {
  const auto& [kind, name, type, sizes, strides] = row;
  if (kind < 0 || kind > static_cast<int>(ValueKind::intermediate)) throw std::invalid_argument("no kind of value");
  GraphValue value{.kind = static_cast<ValueKind>(kind), .layout = tensor_layout(type, sizes, strides)};
  value.layout.owned = value.kind == ValueKind::constant;
  value.layout.output = value.kind == ValueKind::output;
  return value;
}

// Whether all indices along an axis of an array are the same elements.
bool is_repeated(const py::array& array, std::size_t axis) {
  const auto number = static_cast<py::ssize_t>(axis);
  return axis < static_cast<std::size_t>(array.ndim()) && (array.strides(number) == 0 || array.shape(number) == 1);
}

py::object interned(const std::string& name) {
  py::str string(name);
  PyUnicode_InternInPlace(&string.ptr());
  return string;
}

}  // namespace

std::optional<std::vector<std::size_t>> Lineage::same_in(const Lineage& other) const {
  if (last_ != other.last_) return std::nullopt;
  std::vector<std::size_t> same(editions_.size(), SIZE_MAX);
  if (origin_ == other.origin_) {  // then a value's elements are no other value's
    for (std::size_t i = 0; i < same.size(); ++i) {
      if (editions_[i] == other.editions_[i]) same[i] = i;
    }
    return same;
  }
  std::unordered_map<std::uint64_t, std::size_t> others;
  for (std::size_t i = 0; i < other.editions_.size(); ++i) others.emplace(other.editions_[i], i);
  for (std::size_t i = 0; i < same.size(); ++i) {
    if (const auto found = others.find(editions_[i]); found != others.end()) same[i] = found->second;
  }
  return same;
}

GivenGraph::GivenGraph(const std::vector<ValueRow>& values, std::vector<NodeRow> nodes,
                       const std::vector<FreeSize>& free, const GivenGraph* like)
    : names_(std::make_shared<std::vector<py::object>>()),
      free_(std::make_shared<const std::vector<FreeSize>>(free)),
      has_free_size_(std::make_shared<std::vector<bool>>(values.size())),
      arrays_(values.size()),
      lineage_(values.size(), like == nullptr ? nullptr : &like->lineage_) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto* described = std::get_if<DescribedRow>(&values[i]);
    if (described == nullptr) arrays_[i] = std::get<py::array>(values[i]);
    graph_.values.push_back(std::visit([](const auto& row) { return value_of(row); }, values[i]));
    names_->push_back(described == nullptr ? py::object() : interned(std::get<1>(*described)));
  }
  for (NodeRow& row : nodes)
    graph_.nodes.push_back(std::make_shared<GraphNode>(std::make_from_tuple<GraphNode>(std::move(row))));
  for (const auto& [value, axis, length] : free) {
    if (value >= graph_.values.size() || axis >= graph_.values[value].layout.rank) {
      throw std::invalid_argument("a free size of no axis of a value");
    }
    if (arrays_[value]) {
      if (!is_repeated(py::reinterpret_borrow<py::array>(arrays_[value]), axis)) {
        throw std::invalid_argument("a free size of an axis along which an array has several elements");
      }
      graph_.values[value].layout.strides[axis] = 0;  // numpy may have another one for a length of 1
    }
    (*has_free_size_)[value] = true;
    if (length >= free.size()) throw std::invalid_argument("more lengths than there are free sizes");
    lengths_ = std::max(lengths_, length + 1);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((*has_free_size_)[i] && !arrays_[i]) graph_.values[i].layout = packed(graph_.values[i].layout);
  }
  check_graph(graph_);
  if (like != nullptr) take_arrays_of(*like);
}

// All arrays are held here, so that no two have had the same memory one after the other.
void GivenGraph::take_arrays_of(const GivenGraph& like) {
  const auto address = [](const py::object& array) { return py::reinterpret_borrow<py::array>(array).data(); };
  std::unordered_map<const void*, std::vector<std::size_t>> others;
  for (std::size_t i = 0; i < like.arrays_.size(); ++i) {
    if (like.arrays_[i]) others[address(like.arrays_[i])].push_back(i);
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!arrays_[i]) continue;
    const auto there = others.find(address(arrays_[i]));
    if (there == others.end()) continue;
    const auto is_same = [&](std::size_t other) { return graph_.values[i].layout == like.graph_.values[other].layout; };
    const auto same = std::ranges::find_if(there->second, is_same);
    if (same == there->second.end()) continue;
    lineage_.take(i, like.lineage_, *same);
    there->second.erase(same);  // each is one's: of several of the same memory the first is the first's
  }
}

std::unique_ptr<GivenGraph> GivenGraph::changed(const std::vector<std::int64_t>& lengths,
                                                const std::unordered_map<std::size_t, py::array>& arrays,
                                                std::unordered_map<std::size_t, GraphAttributes> attributes) const {
  if (lengths.size() < lengths_) throw std::invalid_argument("too few lengths");
  auto other = std::make_unique<GivenGraph>(*this);
  GraphChanges changes{.values = std::vector<bool>(graph_.values.size()),
                       .nodes = std::vector<bool>(graph_.nodes.size())};
  for (const auto& [number, axis, length] : *free_) {
    std::int64_t& size = other->graph_.values[number].layout.sizes[axis];
    if (size == lengths[length]) continue;
    size = lengths[length];
    changes.values[number] = true;
  }
  for (std::size_t i = 0; i < changes.values.size(); ++i) {
    TensorLayout& layout = other->graph_.values[i].layout;
    if (changes.values[i] && !arrays_[i]) layout = packed(layout);
  }
  for (const auto& [number, array] : arrays) {
    if (!arrays_.at(number)) throw std::invalid_argument("an array of what was given by none");
    if ((*has_free_size_)[number]) throw std::invalid_argument("an array of what has a free size");
    if (arrays_[number].is(array)) continue;
    other->arrays_[number] = array;
    other->graph_.values[number] = value_of(array);
    other->lineage_.change(number);
    changes.values[number] = true;
  }
  for (auto& [number, entries] : attributes) {
    const GraphNode& node = *graph_.nodes.at(number);
    if (node.attributes == entries) continue;
    other->graph_.nodes[number] =
        std::make_shared<GraphNode>(node.type, node.name, node.inputs, node.outputs, std::move(entries));
    changes.nodes[number] = true;
  }
  check_changes(other->graph_, changes);
  return other;
}

}  // namespace dmlcpu
