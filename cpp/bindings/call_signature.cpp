#include "bindings/call_signature.h"

#include <algorithm>
#include <bit>

#include "bindings/arrays.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

bool is_of(const CallSignature::Types& types, PyObject* object) {
  const auto is_type = [&](const py::object& type) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.ptr();
  };
  return std::ranges::any_of(types, is_type);
}

}  // namespace

void Arguments::add(PyObject* object) {
  if (PyList_CheckExact(object)) {
    snapshots[count] = py::reinterpret_steal<py::object>(PyList_AsTuple(object));
    if (!snapshots[count]) throw py::error_already_set();
    object = snapshots[count].ptr();
  }
  objects[count++] = object;
}

bool CallSignature::take(const py::tuple& positional, const py::dict& named, Arguments& arguments) {
  const auto positional_count = static_cast<std::size_t>(PyTuple_GET_SIZE(positional.ptr()));
  if (positional_count + named.size() > kMostArguments || !put(positional_count)) return false;
  // Snapshots first: they allocate, which may run anything.
  for (std::size_t i = 0; i < positional_count; ++i) {
    arguments.add(PyTuple_GET_ITEM(positional.ptr(), static_cast<Py_ssize_t>(i)));
  }
  for (const auto& [name, object] : named) {
    if (!put_name(name.ptr())) return false;
    arguments.add(object.ptr());
  }
  for (std::size_t i = 0; i < arguments.count; ++i) {
    if (!put_object(arguments.objects[i])) return false;
  }
  return true;
}

bool CallSignature::is_constant(PyObject* object) const { return is_of(constant_types_, object); }

bool CallSignature::put(std::uint64_t word) {
  if (count_ == words_.size()) return false;
  words_[count_++] = word;
  return true;
}

bool CallSignature::put_name(PyObject* name) {
  Py_ssize_t length = 0;
  const char* characters = PyUnicode_AsUTF8AndSize(name, &length);
  if (characters == nullptr) {
    PyErr_Clear();
    return false;
  }
  bool fits = put(static_cast<std::uint64_t>(length));
  for (Py_ssize_t i = 0; i < length && fits; ++i) fits = put(static_cast<std::uint8_t>(characters[i]));
  return fits;
}

bool CallSignature::put_object(PyObject* object) {
  if (object == Py_None) return put(Kind::none);
  if (is_plain_array(object)) return !is_opaque(object) && put_array(py::reinterpret_borrow<py::array>(object));
  if (is_plain_scalar(object)) return put(Kind::scalar) && put(std::bit_cast<std::uint64_t>(Py_TYPE(object)));
  if (PyTuple_CheckExact(object)) {
    const Py_ssize_t length = PyTuple_GET_SIZE(object);
    bool fits = put(Kind::sequence) && put(static_cast<std::uint64_t>(length));
    for (Py_ssize_t i = 0; i < length && fits; ++i) fits = put_integer(PyTuple_GET_ITEM(object, i));
    return fits;
  }
  if (is_constant(object)) return put(Kind::constant) && put(std::bit_cast<std::uint64_t>(object));
  if (PyBool_Check(object)) return put(Kind::boolean) && put(object == Py_True);
  if (PyFloat_CheckExact(object)) {
    return put(Kind::real) && put(std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(object)));
  }
  return put_integer(object);
}

bool CallSignature::put_integer(PyObject* object) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && put(Kind::integer) && put(static_cast<std::uint64_t>(value));
}

bool CallSignature::is_opaque(PyObject* array) const {
  PyObject* base = array;
  while (base != nullptr && py::isinstance<py::array>(base)) base = py::detail::array_proxy(base)->base;
  return base != nullptr && is_of(opaque_bases_, base);
}

bool CallSignature::put_array(const py::array& array) {
  using Flags = py::detail::npy_api;
  const auto rank = static_cast<std::uint64_t>(array.ndim());
  const std::uint64_t flags = array.flags() & (Flags::NPY_ARRAY_ALIGNED_ | Flags::NPY_ARRAY_WRITEABLE_);
  bool fits = put(Kind::array) && put(static_cast<std::uint64_t>(array.dtype().num())) && put(flags) && put(rank);
  for (std::uint64_t axis = 0; axis < rank && fits; ++axis) {
    fits =
        put(static_cast<std::uint64_t>(array.shape()[axis])) && put(static_cast<std::uint64_t>(array.strides()[axis]));
  }
  return fits;
}

}  // namespace dmlcpu
