#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "kernels/dispatch.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

using Bytes = py::array_t<std::uint8_t, py::array::c_style | py::array::forcecast>;

Bytes unpacked_nibbles(const Bytes& pairs, std::size_t count) {
  if (static_cast<std::size_t>(pairs.size()) < count / 2 + count % 2) {
    throw std::invalid_argument("there are fewer bytes than elements need");
  }
  const NibblesKernels& kernels = *kernel_table(available_isas().back()).nibbles;
  Bytes elements(static_cast<py::ssize_t>(count));
  const std::uint8_t* const input = pairs.data();
  std::uint8_t* const output = elements.mutable_data();
  without_gil([&] { kernels.unpack(input, count, 0, output); });
  return elements;
}

}  // namespace

void register_nibbles(py::module_& module) {
  module.def("unpacked_nibbles", &unpacked_nibbles, py::arg("pairs"), py::arg("count"));
}

}  // namespace dmlcpu
