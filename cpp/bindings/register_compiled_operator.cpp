#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bound_operator.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace dmlcpu {

void register_compiled_operator(py::module_& module) {
  py::class_<BoundOperator> type(module, "BoundOperator");
  type.def("initialize", &BoundOperator::initialize, py::arg("bindings"))
      .def("dispatch", &BoundOperator::dispatch, py::arg("bindings"))
      .def("describe", [](const BoundOperator& self) { return self.plan().describe(); })
      .def_property_readonly("ready", &BoundOperator::ready)
      .def_property_readonly("temporary_resource_size",
                             [](const BoundOperator& self) { return self.plan().temporary_size(); })
      .def_property_readonly("persistent_resource_size",
                             [](const BoundOperator& self) { return self.plan().persistent_size(); });
  seal(type);
  module.def(
      "bind_operator",
      [](std::string name, const std::vector<BindingName>& names, const std::vector<std::optional<TensorRow>>& tensors,
         std::map<std::string, std::vector<std::int64_t>> attributes, const std::string& isa, int num_threads,
         py::function resolve, py::object result_type) {
        return std::make_unique<BoundOperator>(std::move(name), names, tensors, std::move(attributes), isa, num_threads,
                                               std::move(resolve), std::move(result_type));
      },
      py::arg("type"), py::arg("names"), py::arg("tensors"), py::arg("attributes"), py::arg("isa"),
      py::arg("num_threads"), py::arg("resolve"), py::arg("result_type"));
}

}  // namespace dmlcpu
