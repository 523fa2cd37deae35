#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bound_graph.h"
#include "bindings/given_graph.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace dmlcpu {

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
                             [](const BoundGraph& self) { return self.graph().persistent_size(); })
      .def_property_readonly("changed_constants_size",
                             [](const BoundGraph& self) { return self.graph().changed_constants_size(); });
  seal(type);
  py::class_<GivenGraph> graph(module, "GivenGraph");
  graph.def("changed", &GivenGraph::changed, py::arg("lengths"), py::arg("arrays"), py::arg("attributes"));
  seal(graph);
  module.def(
      "new_graph",
      [](const std::vector<ValueRow>& values, std::vector<NodeRow> nodes, const std::vector<FreeSize>& free,
         const GivenGraph* like) { return std::make_unique<GivenGraph>(values, std::move(nodes), free, like); },
      py::arg("values"), py::arg("nodes"), py::arg("free") = std::vector<FreeSize>(), py::arg("like") = nullptr);
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
