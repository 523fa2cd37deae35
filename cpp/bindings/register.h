// The groups of names in the native module, one function and one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace dmlcpu {

// Closes a type whose methods are all defined. Its objects come from functions of the module alone, since one made by
// __new__ would be bytes that nothing has initialised, and remain what they are: of another __class__, methods would
// take them for what they are not.
template <class Type>
void seal(Type& type) {
  auto* object = reinterpret_cast<PyTypeObject*>(type.ptr());
  object->tp_new = [](PyTypeObject* made, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "objects of %s are made by functions of its module", made->tp_name);
    return nullptr;
  };
  object->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Modified(object);
}

void register_machine(pybind11::module_& module);            // instruction sets, processors, caches
void register_compiled_operator(pybind11::module_& module);  // plans, initialization, dispatch
void register_call_memo(pybind11::module_& module);          // functions on arrays, called again
void register_graph(pybind11::module_& module);              // the same of whole graphs
void register_feeds(pybind11::module_& module);              // what a model is fed
void register_detection(pybind11::module_& module);          // boxes that are kept, regions of images
void register_nibbles(pybind11::module_& module);            // elements of 4 bits

}  // namespace dmlcpu
