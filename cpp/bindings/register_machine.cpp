#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/execution_target.h"
#include "bindings/python_call.h"
#include "bindings/register.h"
#include "kernels/dispatch.h"
#include "runtime/cpu_features.h"
#include "runtime/float_environment.h"
#include "runtime/thread_pool.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

py::tuple names(const std::vector<Isa>& isas) {
  py::tuple result(isas.size());
  for (std::size_t i = 0; i < isas.size(); ++i) result[i] = py::str(isa_name(isas[i]).data());
  return result;
}

}  // namespace

void register_machine(py::module_& module) {
  module.def("known_isas", [] {
    std::vector<Isa> isas;
    for (std::size_t i = 0; i < kIsaCount; ++i) isas.push_back(static_cast<Isa>(i));
    return names(isas);
  });
  module.def("available_isas", [] { return names(available_isas()); });
  module.def(
      "unavailable_reason",
      [](const std::string& name) {
        const std::optional<Isa> isa = isa_from_name(name);
        if (!isa) throw py::value_error("no instruction set is named " + name);
        return unavailable_reason(*isa);
      },
      py::arg("isa"));
  module.def(
      "kernel_origins",
      [](const std::string& name) {
        const std::optional<Isa> isa = isa_from_name(name);
        if (!isa) throw py::value_error("no instruction set is named " + name);
        py::dict rows;
        for (const KernelOrigin& origin : kernel_origins(*isa)) rows[py::str(origin.family)] = py::str(origin.isa);
        return rows;
      },
      py::arg("isa"));
  // For what numpy and Python compute: they follow the rounding mode that the caller has set. What is raised leaves the
  // caller's mode as it was, too.
  module.def("call_in_default_float_environment",
             [](const py::function& function, const py::args& arguments, const py::kwargs& named_arguments) {
               const DefaultFloatEnvironment environment;
               return call_python(function, arguments, named_arguments);
             });
  module.attr("MOST_THREADS") = kMostThreads;
  module.def("usable_processor_count", &usable_processor_count);
  module.def("cache_sizes", [] {
    const CacheSizes sizes = cache_sizes();
    return py::make_tuple(sizes.level_1, sizes.level_2, sizes.level_3);
  });
}

}  // namespace dmlcpu
