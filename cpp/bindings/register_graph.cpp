#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/execution_target.h"
#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "graph/compiled_graph.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

// (kind, name of the binding, data_type, sizes, strides if it is not packed), or in place of a constant that is told
// already the array itself, as it lies in memory.
using DescribedRow =
    std::tuple<int, std::string, int, std::vector<std::int64_t>, std::optional<std::vector<std::int64_t>>>;
using ValueRow = std::variant<py::array, DescribedRow>;
// (type, name, inputs, outputs, attributes)
using NodeRow = std::tuple<std::string, std::string, GraphNode::Inputs, GraphNode::Outputs, GraphAttributes>;
// A size that another graph may have otherwise: (value, axis, which of the lengths it is).
using FreeSize = std::tuple<std::size_t, std::size_t, std::size_t>;

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

// Graphs made of one another, and which of their values have changed since the first. What initialize is given of
// constants is taken to be the same for all.
class Lineage {
 public:
  explicit Lineage(std::size_t values) : first_(std::make_shared<const First>()), changed_(values) {}

  void change(std::size_t value) { changed_[value] = true; }

  // The values of a graph that may not be those of another one; nothing if they are not made of one another.
  std::optional<std::vector<bool>> changed_from(const Lineage& other) const {
    if (first_ != other.first_) return std::nullopt;
    std::vector<bool> either = changed_;
    for (std::size_t i = 0; i < either.size(); ++i) either[i] = either[i] || other.changed_[i];
    return either;
  }

 private:
  struct First {};
  std::shared_ptr<const First> first_;
  std::vector<bool> changed_;
};

// A graph as it is given, of which others are made that differ in some sizes, constants and attributes.
class GivenGraph {
 public:
  GivenGraph(const std::vector<ValueRow>& values, std::vector<NodeRow> nodes, const std::vector<FreeSize>& free)
      : names_(std::make_shared<std::vector<std::string>>()),
        free_(std::make_shared<const std::vector<FreeSize>>(free)),
        arrays_(values.size()),
        lineage_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto* described = std::get_if<DescribedRow>(&values[i]);
      if (described == nullptr) arrays_[i] = std::get<py::array>(values[i]);
      graph_.values.push_back(std::visit([](const auto& row) { return value_of(row); }, values[i]));
      names_->push_back(described == nullptr ? std::string() : std::get<1>(*described));
    }
    for (NodeRow& row : nodes)
      graph_.nodes.push_back(std::make_shared<GraphNode>(std::make_from_tuple<GraphNode>(std::move(row))));
    for (const auto& [value, axis, length] : free) {
      if (value >= graph_.values.size() || axis >= graph_.values[value].layout.rank || arrays_[value]) {
        throw std::invalid_argument("a free size of no axis of a value");
      }
      if (length >= free.size()) throw std::invalid_argument("more lengths than there are free sizes");
      lengths_ = std::max(lengths_, length + 1);
    }
  }

  // Values with a free size are packed in the other graph. Throws std::out_of_range for numbers of none,
  // std::invalid_argument for too few lengths, sizes that overflow, and arrays of what is given by none here.
  std::unique_ptr<GivenGraph> changed(const std::vector<std::int64_t>& lengths,
                                      const std::unordered_map<std::size_t, py::array>& arrays,
                                      std::unordered_map<std::size_t, GraphAttributes> attributes) const {
    if (lengths.size() < lengths_) throw std::invalid_argument("too few lengths");
    auto other = std::make_unique<GivenGraph>(*this);
    for (const auto& [number, axis, length] : *free_) {
      other->graph_.values[number].layout.sizes[axis] = lengths[length];
      other->lineage_.change(number);
    }
    for (const auto& [number, axis, length] : *free_) pack_strides(other->graph_.values[number].layout);
    for (const auto& [number, array] : arrays) {
      if (!arrays_.at(number)) throw std::invalid_argument("an array of what was given by none");
      other->arrays_[number] = array;
      other->graph_.values[number] = value_of(array);
      other->lineage_.change(number);
    }
    for (auto& [number, entries] : attributes) {
      const GraphNode& node = *graph_.nodes.at(number);
      other->graph_.nodes[number] =
          std::make_shared<GraphNode>(node.type, node.name, node.inputs, node.outputs, std::move(entries));
    }
    return other;
  }

  const Graph& graph() const { return graph_; }
  const std::string& name(std::size_t value) const { return (*names_)[value]; }
  // By value; none of those that were given by none.
  const std::vector<py::object>& arrays() const { return arrays_; }
  const Lineage& lineage() const { return lineage_; }

 private:
  Graph graph_;
  std::shared_ptr<std::vector<std::string>> names_;  // of what is bound, by value
  std::shared_ptr<const std::vector<FreeSize>> free_;
  std::size_t lengths_ = 0;  // so many are needed
  std::vector<py::object> arrays_;
  Lineage lineage_;
};

// A graph with its bindings: inputs and outputs by name. As with operators, arrays that fit as they are take a quick
// path, and `resolve`, a Python callable (bindings, sizes of the values that are bound at a dispatch) -> (tuple of
// arrays in the order of these values, None for outputs left out; callable or None), converts the others or raises; the
// callable, if there is one, brings converted outputs back when they are written.
class BoundGraph {
 public:
  BoundGraph(const GivenGraph& given, const std::string& isa, int num_threads, py::function resolve,
             py::object result_type, std::shared_ptr<SessionMemory> shared, const BoundGraph* predecessor)
      : lineage_(given.lineage()),
        arrays_(given.arrays()),
        resolve_(std::move(resolve)),
        result_type_(std::move(result_type)) {
    const Graph& graph = given.graph();
    const ExecutionTarget target = execution_target(isa, num_threads);
    std::optional<Predecessor> other;
    if (predecessor != nullptr && predecessor->ready_.load(std::memory_order_acquire)) {
      if (auto changed = lineage_.changed_from(predecessor->lineage_)) {
        other.emplace(Predecessor{.graph = predecessor->graph(), .changed = std::move(*changed)});
      }
    }
    graph_ = std::make_unique<CompiledGraph>(graph, target, std::move(shared), other);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const GraphValue& value = graph.values[i];
      if (value.kind == ValueKind::constant && !arrays_[i]) constants_.emplace(i, ArrayRule(value.layout));
      if (value.kind != ValueKind::input && value.kind != ValueKind::output) continue;
      py::str name(given.name(i));
      PyUnicode_InternInPlace(&name.ptr());
      bound_.push_back({i, std::move(name), ArrayRule(value.layout)});
    }
  }

  const CompiledGraph& graph() const { return *graph_; }

  // Arrays of constants, by value: of all that were not given by one. What a predecessor was given for them must be the
  // same. Throws std::logic_error if another call has begun before.
  void initialize(const std::unordered_map<std::size_t, py::array>& arrays) {
    if (initializing_.exchange(true)) throw std::logic_error("the graph is initialized already");
    try {
      const CompiledGraph::Pointers pointers = constant_pointers(arrays);
      without_gil([&] { graph_->initialize(pointers); });
    } catch (...) {
      initializing_.store(false);
      throw;
    }
    arrays_ = {};  // the steps keep what they need
    ready_.store(true, std::memory_order_release);
  }

  py::object dispatch(const py::dict& bindings) const { return run(bindings, nullptr); }

  // The outputs in a list, in the order of the values, of inputs that are packed arrays of the very shapes that the
  // graph was given; None, and nothing has run, if some are not or there are others.
  py::object run_packed(const py::dict& inputs) const {
    Bound bound{.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {}, .outputs = {}};
    if (!ready_.load(std::memory_order_acquire) || !bind_packed(inputs, bound)) return py::none();
    without_gil([&] { graph_->dispatch(bound.pointers, nullptr); });
    py::list outputs(bound.outputs.size());
    for (std::size_t i = 0; i < bound.outputs.size(); ++i) outputs[i] = std::move(bound.outputs[i]);
    return outputs;
  }

  // The outputs, and for each step when it began and how long it took, in nanoseconds.
  py::object profile(const py::dict& bindings) const {
    std::vector<StepTime> times;
    py::object outputs = run(bindings, &times);
    py::list steps;
    for (const StepTime& time : times) steps.append(py::make_tuple(time.begin.count(), time.duration.count()));
    return py::make_tuple(outputs, steps);
  }

 private:
  struct Binding {
    std::size_t value;
    py::str name;
    ArrayRule rule;
  };

  // What one dispatch holds: the arrays kept alive whatever the caller does meanwhile, and what the caller gets back.
  struct Bound {
    CompiledGraph::Pointers pointers;
    std::vector<py::object> held, outputs;
  };

  CompiledGraph::Pointers constant_pointers(const std::unordered_map<std::size_t, py::array>& arrays) const {
    CompiledGraph::Pointers pointers(graph_->value_count());
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays_[i]) pointers[i] = const_cast<void*>(py::reinterpret_borrow<py::array>(arrays_[i]).data());
    }
    for (const auto& [value, rule] : constants_) {
      const auto array = arrays.find(value);
      if (array == arrays.end()) throw std::invalid_argument("an array for each constant");
      pointers[value] = rule.accept(array->second);
      if (pointers[value] == nullptr) throw std::logic_error("a constant does not fit its tensor");
    }
    return pointers;
  }

  py::object run(const py::dict& bindings, std::vector<StepTime>* times) const {
    Bound bound{.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {}, .outputs = {}};
    py::object finish = py::none();
    if (!ready_.load(std::memory_order_acquire) || !bind_quickly(bindings, bound)) {
      const py::tuple resolved = resolve_(bindings, bound_sizes());
      if (!ready_.load(std::memory_order_acquire)) throw std::logic_error("the graph is not initialized");
      const py::tuple arrays = resolved[0];
      bound = {.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {arrays}, .outputs = {}};
      bind_resolved(bindings, arrays, bound);
      finish = resolved[1];
    }
    without_gil([&] { graph_->dispatch(bound.pointers, times); });
    if (!finish.is_none()) finish();
    return result_of(bound.outputs, result_type_);
  }

  py::tuple bound_sizes() const {
    py::tuple sizes(bound_.size());
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      const TensorLayout& layout = bound_[i].rule.layout;
      sizes[i] =
          py::tuple(py::cast(std::vector<std::int64_t>(layout.sizes.begin(), layout.sizes.begin() + layout.rank)));
    }
    return sizes;
  }

  void allocate_output(const Binding& binding, Bound& bound) const {
    py::array array = binding.rule.allocate();
    bound.pointers[binding.value] = array.mutable_data();
    bound.outputs.push_back(std::move(array));
  }

  bool bind_packed(const py::dict& inputs, Bound& bound) const {
    Py_ssize_t used = 0;
    for (const Binding& binding : bound_) {
      if (binding.rule.layout.output) continue;
      const auto& array = bound.held.emplace_back(item_of(inputs, binding.name));
      if (!array || !py::isinstance<py::array>(array)) return false;
      bound.pointers[binding.value] = binding.rule.accept_packed(py::reinterpret_borrow<py::array>(array));
      if (bound.pointers[binding.value] == nullptr) return false;
      ++used;
    }
    if (used != PyDict_Size(inputs.ptr())) return false;
    for (const Binding& binding : bound_) {
      if (binding.rule.layout.output) allocate_output(binding, bound);
    }
    return true;
  }

  bool bind_quickly(const py::dict& bindings, Bound& bound) const {
    Py_ssize_t used = 0;
    for (const Binding& binding : bound_) {
      PyObject* object = PyDict_GetItemWithError(bindings.ptr(), binding.name.ptr());
      if (object == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
      if (object != nullptr) ++used;
      if (object == nullptr || object == Py_None) {
        if (!binding.rule.layout.output) return false;
        allocate_output(binding, bound);
        continue;
      }
      bound.pointers[binding.value] = address_of(binding.rule, object, bound.held.emplace_back());
      if (bound.pointers[binding.value] == nullptr) return false;
      if (binding.rule.layout.output) bound.outputs.push_back(bound.held.back());
    }
    if (used != PyDict_Size(bindings.ptr())) return false;
    return !outputs_may_overlap(bound_.size(), [&](std::size_t i) -> BoundMemory {
      return {bound.pointers[bound_[i].value], bound_[i].rule.span_bytes, bound_[i].rule.layout.output};
    });
  }

  void bind_resolved(const py::dict& bindings, const py::tuple& arrays, Bound& bound) const {
    for (std::size_t i = 0; i < bound_.size(); ++i) {
      const Binding& binding = bound_[i];
      if (arrays[i].is_none()) {
        if (!binding.rule.layout.output) throw std::logic_error("an input was not resolved");
        allocate_output(binding, bound);
        continue;
      }
      if (py::isinstance<py::array>(arrays[i])) {
        bound.pointers[binding.value] = binding.rule.accept(py::reinterpret_borrow<py::array>(arrays[i]));
      }
      if (bound.pointers[binding.value] == nullptr)
        throw std::logic_error("a resolved binding does not fit its tensor");
      if (binding.rule.layout.output) bound.outputs.push_back(bindings[binding.name]);
    }
  }

  Lineage lineage_;
  std::unique_ptr<CompiledGraph> graph_;
  std::vector<Binding> bound_;
  std::unordered_map<std::size_t, ArrayRule> constants_;  // by value, those that were not given by an array
  std::vector<py::object> arrays_;                        // of the others, until initialize
  py::function resolve_;
  py::object result_type_;
  std::atomic<bool> initializing_{false}, ready_{false};
};

}  // namespace

void register_graph(py::module_& module) {
  py::class_<SessionMemory, std::shared_ptr<SessionMemory>> memory(module, "SessionMemory");
  seal(memory);
  module.def("new_session_memory", [] { return std::make_shared<SessionMemory>(); });
  py::class_<BoundGraph> type(module, "BoundGraph");
  type.def("initialize", &BoundGraph::initialize, py::arg("arrays"))
      .def("dispatch", &BoundGraph::dispatch, py::arg("bindings"))
      .def("run_packed", &BoundGraph::run_packed, py::arg("inputs"))
      .def("profile", &BoundGraph::profile, py::arg("bindings"))
      .def("describe",
           [](const BoundGraph& self) {
             std::vector<std::tuple<std::string, std::string, std::string, std::size_t>> steps;
             for (CompiledGraph::StepDescription& step : self.graph().describe()) {
               steps.emplace_back(std::move(step.type), std::move(step.name), std::move(step.plan), step.bytes);
             }
             return steps;
           })
      .def_property_readonly("step_count", [](const BoundGraph& self) { return self.graph().step_count(); })
      .def_property_readonly("temporary_resource_size",
                             [](const BoundGraph& self) { return self.graph().temporary_size(); })
      .def_property_readonly("persistent_resource_size",
                             [](const BoundGraph& self) { return self.graph().persistent_size(); });
  seal(type);
  py::class_<GivenGraph> graph(module, "Graph");
  graph.def("changed", &GivenGraph::changed, py::arg("lengths"), py::arg("arrays"), py::arg("attributes"));
  seal(graph);
  module.def(
      "new_graph",
      [](const std::vector<ValueRow>& values, std::vector<NodeRow> nodes, const std::vector<FreeSize>& free) {
        return std::make_unique<GivenGraph>(values, std::move(nodes), free);
      },
      py::arg("values"), py::arg("nodes"), py::arg("free") = std::vector<FreeSize>());
  module.def(
      "bind_graph",
      [](const GivenGraph& given, const std::string& isa, int num_threads, py::function resolve, py::object result_type,
         std::shared_ptr<SessionMemory> shared, const BoundGraph* predecessor) {
        return std::make_unique<BoundGraph>(given, isa, num_threads, std::move(resolve), std::move(result_type),
                                            std::move(shared), predecessor);
      },
      py::arg("graph"), py::arg("isa"), py::arg("num_threads"), py::arg("resolve"), py::arg("result_type"),
      py::arg("shared") = nullptr, py::arg("predecessor") = nullptr);
}

}  // namespace dmlcpu
