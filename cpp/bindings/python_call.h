// Calls of Python from within the module.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

#include "bindings/without_gil.h"

namespace dmlcpu {

// What a function of Python's returns. While it runs other threads may have the GIL, and this one ask for it when the
// interpreter is shutting down (without_gil.h): then it does not return. Throws error_already_set for what it raises.
inline pybind11::object call_python(const pybind11::object& function, const pybind11::tuple& arguments,
                                    const pybind11::handle& named_arguments = {}) {
  PyObject* result = nullptr;
  try {
    result = PyObject_Call(function.ptr(), arguments.ptr(), named_arguments.ptr());
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    wait_for_exit();
  }
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

}  // namespace dmlcpu
