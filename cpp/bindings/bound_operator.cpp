#include "bindings/bound_operator.h"

#include <stdexcept>

#include "bindings/execution_target.h"
#include "bindings/python_call.h"
#include "bindings/without_gil.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

TensorLayout layout_of(const TensorRow& row) {
  const auto& [type, sizes, strides, owned, output] = row;
  TensorLayout layout = tensor_layout(type, sizes, strides);
  layout.owned = owned;
  layout.output = output;
  return layout;
}

}  // namespace

BoundOperator::BoundOperator(std::string type, const std::vector<BindingName>& names,
                             const std::vector<std::optional<TensorRow>>& tensors,
                             std::map<std::string, std::vector<std::int64_t>> attributes, const std::string& isa,
                             int num_threads, py::function resolve, py::object result_type)
    : resolve_(std::move(resolve)), result_type_(std::move(result_type)) {
  const ExecutionTarget target = execution_target(isa, num_threads);
  if (names.size() != tensors.size()) throw std::invalid_argument("an operator needs a name a tensor");
  OperatorDesc desc{.type = std::move(type), .tensors = {}, .attributes = std::move(attributes)};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    desc.tensors.push_back(tensors[i] ? std::optional(layout_of(*tensors[i])) : std::nullopt);
    rules_.push_back(desc.tensors[i] ? std::optional(ArrayRule(*desc.tensors[i])) : std::nullopt);
    has_owned_ |= rules_[i] && rules_[i]->layout.owned;
    const auto& [name, entry] = names[i];
    names_.push_back({py::str(name), entry, 0});
    PyUnicode_InternInPlace(&names_[i].name.ptr());
    for (std::size_t j = 0; j < names.size(); ++j) names_[i].length += names[j].first == name && tensors[j];
  }
  without_gil([&] { operator_ = compile_operator(std::move(desc), target); });
  state_ = has_owned_ ? State::fresh : State::ready;
}

bool BoundOperator::initialize(const py::dict& bindings) {
  const py::tuple resolved = call_python(resolve_, py::make_tuple(bindings, true, ready()));
  const py::tuple arrays = resolved[0];
  State expected = State::fresh;
  if (!state_.compare_exchange_strong(expected, State::initializing)) return false;
  try {
    const TensorPointers pointers = checked_pointers(arrays, true);
    without_gil([&] { operator_->initialize(pointers); });
  } catch (...) {
    state_ = State::fresh;
    throw;
  }
  state_.store(State::ready, std::memory_order_release);
  return true;
}

py::object BoundOperator::dispatch(const py::dict& bindings) const {
  Bound bound;
  py::object finish = py::none();
  if (!ready() || !bind_quickly(bindings, bound)) {
    const py::tuple resolved = call_python(resolve_, py::make_tuple(bindings, false, ready()));
    if (!ready()) throw std::logic_error("the operator is not initialized");
    bound = Bound();
    bind_resolved(bindings, resolved[0], bound);
    finish = resolved[1];
  }
  without_gil([&] { operator_->dispatch(bound.pointers); });
  if (!finish.is_none()) call_python(finish, py::tuple());
  return result_of(std::span(bound.outputs).first(bound.output_count), result_type_);
}

bool BoundOperator::dispatch_addresses(const TensorPointers& pointers) const {
  if (outputs_overlap(pointers)) return false;
  without_gil([&] { operator_->dispatch(pointers); });
  return true;
}

void BoundOperator::allocate_output(std::size_t tensor, Bound& bound) const {
  py::array array = rules_[tensor]->allocate();
  bound.pointers[tensor] = array.mutable_data();
  bound.outputs[bound.output_count++] = std::move(array);
}

bool BoundOperator::outputs_overlap(const TensorPointers& pointers) const {
  return outputs_may_overlap(rules_.size(), [&](std::size_t i) -> BoundMemory {
    if (!rules_[i]) return {nullptr, 0, false};
    return {pointers[i], rules_[i]->span_bytes, rules_[i]->layout.output};
  });
}

// True if every binding is a numpy array or scalar that fits and no output's memory meets another tensor's.
bool BoundOperator::bind_quickly(const py::dict& bindings, Bound& bound) const {
  Py_ssize_t used = 0;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    PyObject* object = value_of(names_[i], bindings);
    if (object != nullptr && names_[i].entry.value_or(0) == 0) ++used;
    py::object snapshot;
    if (!take_entry(names_[i], object, snapshot)) return false;
    if (!rules_[i] || rules_[i]->layout.owned) {
      if (object != nullptr && object != Py_None) return false;
      continue;
    }
    if (object == nullptr || object == Py_None) {
      if (!rules_[i]->layout.output) return false;
      allocate_output(i, bound);
      continue;
    }
    bound.pointers[i] = address_of(*rules_[i], object, bound.held[i]);
    if (bound.pointers[i] == nullptr) return false;
    if (rules_[i]->layout.output) bound.outputs[bound.output_count++] = bound.held[i];
  }
  return used == PyDict_Size(bindings.ptr()) && !outputs_overlap(bound.pointers);
}

// What the caller gave by this name, borrowed, or null.
PyObject* BoundOperator::value_of(const Name& name, const py::dict& bindings) {
  PyObject* object = PyDict_GetItemWithError(bindings.ptr(), name.name.ptr());
  if (object == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return object;
}

// In place of a tuple or list its entry of this name, null past the end; false if it is none of the full length. A list
// could change under another thread's hands: the entry is one of a snapshot, which the caller keeps.
bool BoundOperator::take_entry(const Name& name, PyObject*& object, py::object& snapshot) {
  if (!name.entry || object == nullptr || object == Py_None) return true;
  if (PyList_Check(object)) {
    snapshot = py::reinterpret_steal<py::object>(PyList_AsTuple(object));
    if (!snapshot) throw py::error_already_set();
    object = snapshot.ptr();
  }
  if (!PyTuple_Check(object) || static_cast<std::size_t>(PyTuple_GET_SIZE(object)) != name.length) return false;
  object = *name.entry < name.length ? PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(*name.entry)) : nullptr;
  return true;
}

// The addresses of arrays that `resolve` has passed: checked again, since memory safety rests on it.
TensorPointers BoundOperator::checked_pointers(const py::tuple& arrays, bool owned) const {
  TensorPointers pointers{};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i] || rules_[i]->layout.owned != owned) continue;
    if (arrays[i].is_none() && rules_[i]->layout.output) continue;
    if (py::isinstance<py::array>(arrays[i])) {
      pointers[i] = rules_[i]->accept(py::reinterpret_borrow<py::array>(arrays[i]));
    }
    if (pointers[i] == nullptr) throw std::logic_error("a resolved binding does not fit its tensor");
  }
  return pointers;
}

void BoundOperator::bind_resolved(const py::dict& bindings, const py::tuple& arrays, Bound& bound) const {
  bound.pointers = checked_pointers(arrays, false);
  bound.held[0] = arrays;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i] || rules_[i]->layout.owned) continue;
    if (!rules_[i]->layout.output) continue;
    if (bound.pointers[i] == nullptr) {
      allocate_output(i, bound);
    } else {
      PyObject* object = value_of(names_[i], bindings);
      py::object snapshot;
      if (!take_entry(names_[i], object, snapshot) || object == nullptr) throw std::logic_error("an output has gone");
      bound.outputs[bound.output_count++] = py::reinterpret_borrow<py::object>(object);
    }
  }
}

}  // namespace dmlcpu
