#include "bindings/bound_graph.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings/execution_target.h"
#include "bindings/python_call.h"
#include "bindings/without_gil.h"

namespace py = pybind11;

namespace dmlcpu {

BoundGraph::BoundGraph(const GivenGraph& given, const std::string& isa, int num_threads, py::function resolve,
                       py::object result_type, std::shared_ptr<SessionMemory> shared, const BoundGraph* predecessor)
    : lineage_(given.lineage()),
      arrays_(given.arrays()),
      resolve_(std::move(resolve)),
      result_type_(std::move(result_type)) {
  const Graph& graph = given.graph();
  const ExecutionTarget target = execution_target(isa, num_threads);
  std::optional<Predecessor> other;
  if (predecessor != nullptr && predecessor->ready_.load(std::memory_order_acquire)) {
    if (auto same = lineage_.same_in(predecessor->lineage_)) {
      other.emplace(Predecessor{.graph = predecessor->graph(), .same = std::move(*same)});
    }
  }
  without_gil([&] { graph_ = std::make_unique<CompiledGraph>(graph, target, std::move(shared), other); });
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const GraphValue& value = graph.values[i];
    if (value.kind == ValueKind::constant && !arrays_[i]) constants_.emplace(i, ArrayRule(value.layout));
    if (value.kind != ValueKind::input && value.kind != ValueKind::output) continue;
    bound_.push_back({i, py::reinterpret_borrow<py::str>(given.name(i)), ArrayRule(value.layout)});
  }
}

void BoundGraph::initialize(const std::unordered_map<std::size_t, py::array>& arrays) {
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

py::object BoundGraph::run_packed(const py::dict& inputs) const {
  Bound bound{.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {}, .outputs = {}};
  if (!ready_.load(std::memory_order_acquire) || !bind_packed(inputs, bound)) return py::none();
  without_gil([&] { graph_->dispatch(bound.pointers, nullptr); });
  py::list outputs(bound.outputs.size());
  for (std::size_t i = 0; i < bound.outputs.size(); ++i) outputs[i] = std::move(bound.outputs[i]);
  return outputs;
}

py::object BoundGraph::profile(const py::dict& bindings) const {
  std::vector<StepTime> times;
  py::object outputs = run(bindings, &times);
  py::list steps;
  for (const StepTime& time : times) steps.append(py::make_tuple(time.begin.count(), time.duration.count()));
  return py::make_tuple(outputs, steps);
}

CompiledGraph::Pointers BoundGraph::constant_pointers(const std::unordered_map<std::size_t, py::array>& arrays) const {
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

py::object BoundGraph::run(const py::dict& bindings, std::vector<StepTime>* times) const {
  Bound bound{.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {}, .outputs = {}};
  py::object finish = py::none();
  if (!ready_.load(std::memory_order_acquire) || !bind_quickly(bindings, bound)) {
    const py::tuple resolved = call_python(resolve_, py::make_tuple(bindings, bound_sizes()));
    if (!ready_.load(std::memory_order_acquire)) throw std::logic_error("the graph is not initialized");
    const py::tuple arrays = resolved[0];
    bound = {.pointers = CompiledGraph::Pointers(graph_->value_count()), .held = {arrays}, .outputs = {}};
    bind_resolved(bindings, arrays, bound);
    finish = resolved[1];
  }
  without_gil([&] { graph_->dispatch(bound.pointers, times); });
  if (!finish.is_none()) call_python(finish, py::tuple());
  return result_of(bound.outputs, result_type_);
}

py::tuple BoundGraph::bound_sizes() const {
  py::tuple sizes(bound_.size());
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const TensorLayout& layout = bound_[i].rule.layout;
    sizes[i] = py::tuple(py::cast(std::vector<std::int64_t>(layout.sizes.begin(), layout.sizes.begin() + layout.rank)));
  }
  return sizes;
}

void BoundGraph::allocate_output(const Binding& binding, Bound& bound) const {
  py::array array = binding.rule.allocate();
  bound.pointers[binding.value] = array.mutable_data();
  bound.outputs.push_back(std::move(array));
}

bool BoundGraph::bind_packed(const py::dict& inputs, Bound& bound) const {
  Py_ssize_t used = 0;
  for (const Binding& binding : bound_) {
    if (binding.rule.layout.output) continue;
    const auto& array = bound.held.emplace_back(item_of(inputs, binding.name));
    if (!array || !is_unmasked_array(array.ptr())) return false;
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

bool BoundGraph::bind_quickly(const py::dict& bindings, Bound& bound) const {
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

void BoundGraph::bind_resolved(const py::dict& bindings, const py::tuple& arrays, Bound& bound) const {
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
    if (bound.pointers[binding.value] == nullptr) throw std::logic_error("a resolved binding does not fit its tensor");
    if (binding.rule.layout.output) bound.outputs.push_back(bindings[binding.name]);
  }
}

}  // namespace dmlcpu
