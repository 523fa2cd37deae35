#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings/call_memo.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace dmlcpu {

void register_call_memo(py::module_& module) {
  py::class_<CallMemo> type(module, "CallMemo");
  type.def("recall", &CallMemo::recall, py::arg("positional"), py::arg("named"))
      .def("sign", &CallMemo::sign, py::arg("positional"), py::arg("named"))
      .def("remember", &CallMemo::remember, py::arg("signature"), py::arg("positional"), py::arg("named"),
           py::arg("operator"), py::arg("bound"), py::arg("results"), py::arg("result_type"));
  seal(type);
  module.def(
      "new_call_memo",
      [](CallMemo::Types constant_types, CallMemo::Types opaque_bases) {
        return std::make_unique<CallMemo>(std::move(constant_types), std::move(opaque_bases));
      },
      py::arg("constant_types"), py::arg("opaque_bases"));
}

}  // namespace dmlcpu
