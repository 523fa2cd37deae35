#include "graph/placement.h"

#include <algorithm>
#include <ranges>
#include <stdexcept>

#include "graph/strides.h"
#include "operators/strides/packed_layout.h"

namespace dmlcpu {
namespace {

// Of steps that copy. Made when the library is loaded, as a fork() amid a first use would leave the child waiting.
const std::string kCopy = "COPY";
const GraphAttributes kNoAttributes;

bool same_place(const Placement& a, const Placement& b) {
  return a.buffer == b.buffer && a.offset == b.offset && same_strides(a.layout, b.layout.strides);
}

// Moves to another element of the same tensor; elements are whole bytes.
void advance(Placement& place, std::size_t axis, std::int64_t index) {
  place.offset += index * place.layout.strides[axis] * static_cast<std::int64_t>(element_size(place.layout.type));
}

// Whether what computes a tensor writes so many bytes from its first element on.
// An odd number of 4-bit elements ends within a byte.
bool writes_all_of(const TensorLayout& tensor, std::size_t bytes) {
  const std::int64_t count = tensor.element_count();
  if (tensor.span() != count) return false;  // it has gaps
  return bytes <= storage_size(tensor.type, is_four_bits(tensor.type) ? count - count % 2 : count);
}

class Placer {
 public:
  explicit Placer(const Graph& graph)
      : graph_(graph),
        places_(graph.values.size()),
        producers_(graph.values.size()),
        reinterpreted_(graph.values.size()) {
    for (const NodePointer& node : graph.nodes) {
      for (const std::size_t value : node->outputs) producers_[value] = node.get();
      if (node->view == View::reinterpret) reinterpreted_[*node->inputs[0]] = true;
    }
    // Also through views: what lies behind a value that is reinterpreted may be no other part of a join.
    ends_its_buffer_ = reinterpreted_;
    for (const NodePointer& node : graph.nodes | std::views::reverse) {
      if (node->is_view() && !node->joins_inputs() && ends_its_buffer_[node->outputs[0]]) {
        ends_its_buffer_[*node->inputs[0]] = true;
      }
    }
  }

  PlacedGraph place() {
    placed_.buffers.reserve(graph_.values.size());
    placed_.steps.reserve(graph_.nodes.size());
    place_bound_values();
    channels_last_ = find_channels_last();
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (graph_.nodes[i]->joins_inputs()) place_parts(*graph_.nodes[i]);
      if (graph_.nodes[i]->view == View::reshape) place_source(*graph_.nodes[i]);
    }
    for (const NodePointer& node : graph_.nodes) node->is_view() ? resolve_view(node) : add_operator(node);
    return std::move(placed_);
  }

 private:
  void place_bound_values();
  Arrangement arrangement_of(const GraphNode& node) const;
  std::vector<bool> find_channels_last() const;
  void place_parts(const GraphNode& node);
  void place_source(const GraphNode& node);
  bool is_free(std::size_t value) const;
  bool reshapes_free(std::size_t value, const TensorLayout& part) const;
  void resolve_view(const NodePointer& node);
  void add_operator(const NodePointer& node);
  std::optional<Placement> view_of(const GraphNode& node, const Placement& input) const;
  Placement part_of_whole(const GraphNode& node, std::size_t input) const;
  Placement allocate(const TensorLayout& layout);
  Placement allocate_value(std::size_t value);
  Placement as_declared(const NodePointer& node);
  Placement copy_of_bytes(const NodePointer& node, Placement from, std::size_t bytes);
  void copy(const NodePointer& node, const Placement& from, const Placement& to);
  void copy_reshaped(const NodePointer& node, const Placement& from, const Placement& to);

  const Graph& graph_;
  PlacedGraph placed_;
  std::vector<std::optional<Placement>> places_;  // by value
  std::vector<const GraphNode*> producers_;       // by value
  std::vector<bool> reinterpreted_;               // by value
  std::vector<bool> ends_its_buffer_;             // by value: it, or a view of it, is reinterpreted
  std::vector<bool> channels_last_;               // by value
};

void Placer::place_bound_values() {
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const GraphValue& value = graph_.values[i];
    if (value.kind == ValueKind::intermediate) continue;
    placed_.buffers.push_back({.bound = i, .bytes = value.layout.span_bytes()});
    places_[i] = Placement{placed_.buffers.size() - 1, 0, value.layout};
  }
}

Arrangement Placer::arrangement_of(const GraphNode& node) const {
  constexpr std::int64_t kLeastElements = 16;
  if (node.arrangement != Arrangement::channels_if_small) return node.arrangement;
  const TensorLayout& output = graph_.values[node.outputs[0]].layout;
  std::int64_t elements = 1;
  for (std::size_t axis = 2; axis < output.rank; ++axis) elements *= std::min(output.sizes[axis], kLeastElements);
  // An extreme of a whole plane is a run in any layout; averages and sums are added in their order, of many channels at
  // once.
  const auto function = node.attributes.find("function");
  const std::int64_t number = function == node.attributes.end() || function->second.empty() ? 0 : function->second[0];
  if (elements == 1 && (number == 1 || number == 2)) return Arrangement::element_wise;
  return elements < kLeastElements ? Arrangement::channels : Arrangement::element_wise;
}

// Values that operators with channels read or write, and from them on what element-wise operators, slices and joins
// relate to them.
std::vector<bool> Placer::find_channels_last() const {
  struct Related {
    Arrangement arrangement;
    std::vector<std::size_t> values;
  };
  std::vector<bool> found(graph_.values.size());
  const auto has_channels = [this](const NodePointer& node) { return arrangement_of(*node) == Arrangement::channels; };
  if (std::ranges::none_of(graph_.nodes, has_channels)) return found;
  std::vector<Related> nodes;
  for (const NodePointer& node : graph_.nodes) {
    const Arrangement arrangement = arrangement_of(*node);
    if (arrangement == Arrangement::own) continue;
    nodes.push_back({arrangement, node->outputs});
    const std::size_t rank = graph_.values[node->outputs[0]].layout.rank;
    for (const std::optional<std::size_t>& value : node->inputs) {
      if (value && graph_.values[*value].layout.rank == rank) nodes.back().values.push_back(*value);
      if (arrangement == Arrangement::channels) break;  // of the others none is data in the arrangement of the output
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Related& node : nodes) {
      if (node.arrangement == Arrangement::element_wise &&
          std::ranges::none_of(node.values, [&](std::size_t value) { return found[value]; })) {
        continue;
      }
      for (const std::size_t value : node.values) {
        changed |= !found[value];
        found[value] = true;
      }
    }
  }
  return found;
}

Placement Placer::allocate(const TensorLayout& layout) {
  placed_.buffers.push_back({.bound = std::nullopt, .bytes = layout.span_bytes()});
  return {placed_.buffers.size() - 1, 0, layout};
}

Placement Placer::allocate_value(std::size_t value) {
  Placement place{placed_.buffers.size(), 0, graph_.values[value].layout};
  if (!reinterpreted_[value]) {
    place.layout.strides = channels_last_[value] ? channels_last_strides(place.layout) : packed(place.layout).strides;
  }
  placed_.buffers.push_back({.bound = std::nullopt, .bytes = place.layout.span_bytes()});
  return place;
}

// Gives the output of a JOIN or INTERLEAVE its place, and those inputs theirs within it that a node can write there.
void Placer::place_parts(const GraphNode& node) {
  const std::size_t output = node.outputs[0];
  if (!places_[output]) places_[output] = allocate_value(output);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::size_t value = *node.inputs[i];
    const Placement part = part_of_whole(node, i);
    if (is_free(value) || reshapes_free(value, part.layout)) places_[value] = part;
  }
}

// Gives the input of a RESHAPE that has a place already the same one, if strides can say it, and unless its channels
// are better neighbours.
void Placer::place_source(const GraphNode& node) {
  const std::size_t value = *node.inputs[0];
  if (!places_[node.outputs[0]] || !is_free(value) || channels_last_[value]) return;
  Placement place = *places_[node.outputs[0]];
  const TensorLayout& layout = graph_.values[value].layout;
  const std::optional<Extents> strides = reshaped_strides(place.layout, layout);
  if (!strides) return;
  place.layout.rank = layout.rank;
  place.layout.sizes = layout.sizes;
  place.layout.strides = *strides;
  places_[value] = place;
}

// Whether a value has no place yet, and what computes it can write it anywhere.
bool Placer::is_free(std::size_t value) const {
  const GraphNode* producer = producers_[value];
  return !places_[value] && !ends_its_buffer_[value] && (!producer->is_view() || producer->joins_inputs());
}

// Whether a value has no place yet, and is a RESHAPE of one that can be written where this value is to be.
bool Placer::reshapes_free(std::size_t value, const TensorLayout& part) const {
  const GraphNode* producer = producers_[value];
  if (places_[value] || ends_its_buffer_[value] || producer->view != View::reshape) return false;
  const std::size_t source = *producer->inputs[0];
  return is_free(source) && !channels_last_[source] && reshaped_strides(part, graph_.values[source].layout);
}

Placement Placer::part_of_whole(const GraphNode& node, std::size_t input) const {
  const auto axis = static_cast<std::size_t>(node.attributes.at("axis")[0]);
  const Extents& sizes = graph_.values[*node.inputs[input]].layout.sizes;
  Placement place = *places_[node.outputs[0]];
  std::int64_t begin = 0;
  if (node.view == View::interleave) {
    begin = static_cast<std::int64_t>(input);
  } else {
    for (std::size_t i = 0; i < input; ++i) begin += graph_.values[*node.inputs[i]].layout.sizes[axis];
  }
  advance(place, axis, begin);
  if (node.view == View::interleave) {
    place.layout.strides[axis] =
        sizes[axis] == 1 ? 0 : place.layout.strides[axis] * static_cast<std::int64_t>(node.inputs.size());
  }
  place.layout.sizes = sizes;
  return place;
}

// The input's memory as the view's output; nothing if strides cannot say it.
std::optional<Placement> Placer::view_of(const GraphNode& node, const Placement& input) const {
  const TensorLayout& output = graph_.values[node.outputs[0]].layout;
  Placement place = input;
  place.layout.type = output.type;
  place.layout.rank = output.rank;
  place.layout.sizes = output.sizes;
  if (node.view == View::reinterpret) {
    place.layout.strides = output.strides;
    return place;
  }
  if (node.view == View::reshape) {
    const std::optional<Extents> strides = reshaped_strides(input.layout, output);
    if (!strides) return std::nullopt;
    place.layout.strides = *strides;
    return place;
  }
  if (node.view == View::transpose) {
    const std::vector<std::int64_t>& permutation = node.attributes.at("permutation");
    for (std::size_t axis = 0; axis < output.rank; ++axis) {
      place.layout.strides[axis] = input.layout.strides[static_cast<std::size_t>(permutation[axis])];
    }
  } else if (node.view == View::slice) {
    const std::vector<std::int64_t>&starts = node.attributes.at("starts"), &steps = node.attributes.at("steps");
    for (std::size_t axis = 0; axis < output.rank; ++axis) {
      advance(place, axis, starts[axis]);
      place.layout.strides[axis] = output.sizes[axis] == 1 ? 0 : input.layout.strides[axis] * steps[axis];
    }
  } else {  // expand
    for (std::size_t axis = 0; axis < output.rank; ++axis) {
      if (input.layout.sizes[axis] != output.sizes[axis]) place.layout.strides[axis] = 0;
    }
  }
  return place;
}

// The input of a REINTERPRET in memory that is laid out as it says, large enough for the output and aligned for it.
Placement Placer::as_declared(const NodePointer& node) {
  Placement place = *places_[*node->inputs[0]];
  TensorLayout declared = graph_.values[*node->inputs[0]].layout;
  if (!same_strides(place.layout, declared.strides)) {
    const Placement packed = allocate(declared);
    copy(node, place, packed);
    place = packed;
  }
  GraphBuffer& buffer = placed_.buffers[place.buffer];
  const TensorLayout& output = graph_.values[node->outputs[0]].layout;
  const std::size_t offset = static_cast<std::size_t>(place.offset), bytes = output.span_bytes();
  if (buffer.bound && offset + bytes > buffer.bytes) {
    throw std::invalid_argument("node " + node->name + ": the other tensor is larger than the memory of the first");
  }
  buffer.bytes = std::max(buffer.bytes, offset + bytes);
  buffer.is_cleared |= !buffer.bound && !writes_all_of(declared, bytes);
  // Arrays are aligned to the elements that they are declared with.
  const std::size_t element = element_size(output.type);
  const bool aligned = element <= element_size(declared.type) || (!buffer.bound && offset % element == 0);
  return aligned ? place : copy_of_bytes(node, place, bytes);
}

Placement Placer::copy_of_bytes(const NodePointer& node, Placement from, std::size_t bytes) {
  from.layout = {.type = DataType::uint8, .rank = 1, .sizes = {static_cast<std::int64_t>(bytes)}, .strides = {1}};
  const Placement to = allocate(from.layout);
  copy(node, from, to);
  return to;
}

void Placer::resolve_view(const NodePointer& node) {
  const std::size_t output = node->outputs[0];
  if (node->joins_inputs()) {
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      const Placement part = part_of_whole(*node, i);
      const Placement& input = *places_[*node->inputs[i]];
      if (!same_place(input, part)) copy(node, input, part);
    }
    return;
  }
  std::optional<Placement> declared;
  if (node->view == View::reinterpret) declared = as_declared(node);
  const Placement& input = declared ? *declared : *places_[*node->inputs[0]];
  const std::optional<Placement> view = view_of(*node, input);
  if (view && (!places_[output] || same_place(*view, *places_[output]))) {
    places_[output] = view;
    return;
  }
  // What has to be copied is copied to where its readers want it.
  if (!places_[output]) places_[output] = allocate_value(output);
  view ? copy(node, *view, *places_[output]) : copy_reshaped(node, input, *places_[output]);
}

void Placer::copy(const NodePointer& node, const Placement& from, const Placement& to) {
  placed_.steps.push_back({.node = node, .is_copy = true, .tensors = {from, to}, .inputs = 1});
}

// Copies elements in row-major order between tensors of different sizes, over a packed buffer if need be.
void Placer::copy_reshaped(const NodePointer& node, const Placement& from, const Placement& to) {
  Placement through = to;
  through.layout.rank = from.layout.rank;
  through.layout.sizes = from.layout.sizes;
  if (const std::optional<Extents> strides = reshaped_strides(to.layout, from.layout)) {
    through.layout.strides = *strides;
    return copy(node, from, through);
  }
  through = allocate(packed(through.layout));
  copy(node, from, through);
  through.layout.rank = to.layout.rank;
  through.layout.sizes = to.layout.sizes;
  through.layout = packed(through.layout);
  copy(node, through, to);
}

void Placer::add_operator(const NodePointer& node) {
  GraphStep step = {.node = node, .is_copy = false, .tensors = {}, .inputs = node->inputs.size()};
  step.tensors.reserve(node->inputs.size() + node->outputs.size());
  for (const std::optional<std::size_t>& value : node->inputs) {
    step.tensors.push_back(value ? places_[*value] : std::nullopt);
  }
  for (const std::size_t value : node->outputs) {
    if (!places_[value]) places_[value] = allocate_value(value);
    step.tensors.push_back(places_[value]);
  }
  placed_.steps.push_back(std::move(step));
}

}  // namespace

const std::string& GraphStep::type() const { return is_copy ? kCopy : node->type; }

const GraphAttributes& GraphStep::attributes() const { return is_copy ? kNoAttributes : node->attributes; }

PlacedGraph place_graph(const Graph& graph) { return Placer(graph).place(); }

}  // namespace dmlcpu
