#include "graph/graph.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace dmlcpu {
namespace {

struct ViewRow {
  std::string_view type;
  View view;
  Arrangement arrangement;
};
constexpr std::array<ViewRow, 7> kViews = {{
    {"TRANSPOSE", View::transpose, Arrangement::own},
    {"SLICE", View::slice, Arrangement::element_wise},
    {"RESHAPE", View::reshape, Arrangement::own},
    {"EXPAND", View::expand, Arrangement::element_wise},
    {"JOIN", View::join, Arrangement::element_wise},
    {"INTERLEAVE", View::interleave, Arrangement::element_wise},
    {"REINTERPRET", View::reinterpret, Arrangement::own},
}};

[[noreturn]] void refuse(const GraphNode& node, const std::string& why) {
  throw std::invalid_argument("node " + node.name + ": " + node.type + ": " + why);
}

void require(bool holds, const GraphNode& node, const char* why) {
  if (!holds) refuse(node, why);
}

const std::vector<std::int64_t>& entries(const GraphNode& node, const char* attribute, std::size_t count) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end() || found->second.size() != count) {
    refuse(node, std::string(attribute) + " needs " + std::to_string(count) + " entries");
  }
  return found->second;
}

void check_transpose(const GraphNode& node, const TensorLayout& input, const TensorLayout& output) {
  require(input.rank == output.rank, node, "ranks differ");
  const std::vector<std::int64_t>& permutation = entries(node, "permutation", input.rank);
  unsigned seen = 0;
  for (std::size_t axis = 0; axis < output.rank; ++axis) {
    const std::int64_t from = permutation[axis];
    require(from >= 0 && from < static_cast<std::int64_t>(input.rank), node, "no permutation of the axes");
    require(output.sizes[axis] == input.sizes[static_cast<std::size_t>(from)], node, "sizes differ");
    seen |= 1U << from;
  }
  require(seen + 1 == 1U << input.rank, node, "no permutation of the axes");
}

void check_slice(const GraphNode& node, const TensorLayout& input, const TensorLayout& output) {
  require(input.rank == output.rank, node, "ranks differ");
  const std::vector<std::int64_t>& starts = entries(node, "starts", input.rank);
  const std::vector<std::int64_t>& steps = entries(node, "steps", input.rank);
  for (std::size_t axis = 0; axis < input.rank; ++axis) {
    require(starts[axis] >= 0 && starts[axis] < input.sizes[axis] && steps[axis] >= 1, node, "a start or step");
    // Without overflow: start + (count - 1) * step < size.
    require((input.sizes[axis] - 1 - starts[axis]) / steps[axis] >= output.sizes[axis] - 1, node,
            "a slice beyond its input");
  }
}

void check_expand(const GraphNode& node, const TensorLayout& input, const TensorLayout& output) {
  require(input.rank == output.rank, node, "ranks differ");
  for (std::size_t axis = 0; axis < input.rank; ++axis) {
    require(input.sizes[axis] == output.sizes[axis] || input.sizes[axis] == 1, node, "sizes differ");
  }
}

// Of JOIN and INTERLEAVE: the inputs fit on all axes but one, along which their lengths add up.
void check_whole(const Graph& graph, const GraphNode& node, const TensorLayout& output) {
  const std::int64_t axis = entries(node, "axis", 1)[0];
  require(axis >= 0 && axis < static_cast<std::int64_t>(output.rank), node, "no such axis");
  std::int64_t length = 0;
  for (const std::optional<std::size_t>& value : node.inputs) {
    const TensorLayout& input = graph.values[*value].layout;
    require(input.rank == output.rank, node, "ranks differ");
    for (std::size_t i = 0; i < output.rank; ++i) {
      require(static_cast<std::int64_t>(i) == axis || input.sizes[i] == output.sizes[i], node, "sizes differ");
    }
    const bool overflows = __builtin_add_overflow(length, input.sizes[static_cast<std::size_t>(axis)], &length);
    require(!overflows, node, "lengths along the axis do not add up");
  }
  require(length == output.sizes[static_cast<std::size_t>(axis)], node, "lengths along the axis do not add up");
}

// Takes turns from the first input to the last, so that earlier inputs may be one longer.
void check_interleave(const Graph& graph, const GraphNode& node, const TensorLayout& output) {
  check_whole(graph, node, output);
  const auto axis = static_cast<std::size_t>(node.attributes.at("axis")[0]);
  const auto count = static_cast<std::int64_t>(node.inputs.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = output.sizes[axis] / count + (i < output.sizes[axis] % count);
    require(graph.values[*node.inputs[static_cast<std::size_t>(i)]].layout.sizes[axis] == length, node,
            "an input has not every so many of the indices along the axis");
  }
}

void check_view(const Graph& graph, const GraphNode& node) {
  require(node.outputs.size() == 1 && !node.inputs.empty(), node, "a view has inputs and one output");
  const TensorLayout& output = graph.values[node.outputs[0]].layout;
  for (const std::optional<std::size_t>& value : node.inputs) {
    require(value.has_value(), node, "an input is absent");
    require(node.view == View::reinterpret || graph.values[*value].layout.type == output.type, node,
            "data types differ");
  }
  const TensorLayout& input = graph.values[*node.inputs[0]].layout;
  require((!node.joins_inputs() && node.view != View::slice) || !is_four_bits(output.type), node,
          "no address is that of a 4-bit element");
  if (node.view == View::join) return check_whole(graph, node, output);
  if (node.view == View::interleave) return check_interleave(graph, node, output);
  require(node.inputs.size() == 1, node, "more than one input");
  if (node.view == View::transpose) return check_transpose(node, input, output);
  if (node.view == View::slice) return check_slice(node, input, output);
  if (node.view == View::expand) return check_expand(node, input, output);
  if (node.view == View::reshape) {
    return require(input.element_count() == output.element_count(), node, "element counts differ");
  }
  require(graph.values[node.outputs[0]].kind == ValueKind::intermediate, node, "its output is bound");
}

void check_value(const GraphValue& value) {
  const TensorLayout& layout = value.layout;
  if (layout.rank < 1 || layout.rank > kMaxRank) throw std::invalid_argument("a value's rank is out of range");
  if (storage_size(layout.type, 1) == 0) throw std::invalid_argument("a value's data type is not supported");
  layout.span();
  layout.element_count();
}

}  // namespace

GraphNode::GraphNode(std::string type_name, std::string node_name, Inputs read, Outputs written, GraphAttributes with)
    : type(std::move(type_name)),
      name(std::move(node_name)),
      inputs(std::move(read)),
      outputs(std::move(written)),
      attributes(std::move(with)),
      view(View::none) {
  const auto row = std::ranges::find(kViews, std::string_view(type), &ViewRow::type);
  if (row != kViews.end()) view = row->view;
  arrangement = is_view() ? row->arrangement : operator_arrangement(type);
  if (!is_view()) stage_role = operator_stage_role(type);
}

void check_graph(const Graph& graph) {
  for (const GraphValue& value : graph.values) check_value(value);
  std::vector<bool> written(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ValueKind kind = graph.values[i].kind;
    written[i] = kind == ValueKind::input || kind == ValueKind::constant;
  }
  for (const NodePointer& pointer : graph.nodes) {
    const GraphNode& node = *pointer;
    for (const std::optional<std::size_t>& value : node.inputs) {
      require(!value || (*value < written.size() && written[*value]), node, "reads a value that is not written before");
    }
    require(!node.outputs.empty(), node, "writes no value");
    for (const std::size_t value : node.outputs) {
      require(value < written.size() && !written[value], node, "writes a value that has been written");
      written[value] = true;
    }
    if (node.is_view()) check_view(graph, node);
  }
  if (!std::ranges::all_of(written, [](bool is) { return is; })) {
    throw std::invalid_argument("a value is written by no node");
  }
}

void check_changes(const Graph& graph, const GraphChanges& changes) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (changes.values[i]) check_value(graph.values[i]);
  }
  const auto is_changed = [&](const std::optional<std::size_t>& value) { return value && changes.values[*value]; };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = *graph.nodes[i];
    if (node.is_view() &&
        (changes.nodes[i] || changes.values[node.outputs[0]] || std::ranges::any_of(node.inputs, is_changed))) {
      check_view(graph, node);
    }
  }
}

}  // namespace dmlcpu
