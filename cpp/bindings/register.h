// The groups of names in the native module, one function and one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace dmlcpu {

void register_machine(pybind11::module_& module);            // instruction sets, processors, caches
void register_compiled_operator(pybind11::module_& module);  // plans, initialization, dispatch
void register_graph(pybind11::module_& module);              // the same of whole graphs

}  // namespace dmlcpu
