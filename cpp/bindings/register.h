// The groups of names in the native module, one function and one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace dmlcpu {

// Objects of this type come from functions of the module alone: one made by __new__ would be bytes that nothing has
// initialised.
template <class Type>
void forbid_new(Type& type) {
  reinterpret_cast<PyTypeObject*>(type.ptr())->tp_new = [](PyTypeObject* object, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "objects of %s are made by functions of its module", object->tp_name);
    return nullptr;
  };
}

void register_machine(pybind11::module_& module);            // instruction sets, processors, caches
void register_compiled_operator(pybind11::module_& module);  // plans, initialization, dispatch
void register_call_memo(pybind11::module_& module);          // functions on arrays, called again
void register_graph(pybind11::module_& module);              // the same of whole graphs
void register_detection(pybind11::module_& module);          // boxes that are kept

}  // namespace dmlcpu
