#include "bindings/register.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The native part of dmlcpu. Private: use the package.";
  dmlcpu::register_machine(module);
  dmlcpu::register_compiled_operator(module);
  dmlcpu::register_graph(module);
}
