#include <pybind11/numpy.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "kernels/dispatch.h"
#include "operators/selection/non_max_suppression.h"
#include "runtime/thread_pool.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

py::array_t<std::int64_t> kept_boxes(const Floats& boxes, const Floats& scores, std::size_t most_boxes, float overlap,
                                     const std::optional<float>& score, bool centred, const std::string& isa,
                                     int num_threads) {
  const std::optional<Isa> row = isa_from_name(isa);
  if (!row || !unavailable_reason(*row).empty() || num_threads < 1) {
    throw std::invalid_argument("boxes need an available instruction set and a thread");
  }
  if (boxes.ndim() != 3 || scores.ndim() != 3 || boxes.shape(2) != 4 || boxes.shape(0) != scores.shape(0) ||
      boxes.shape(1) != scores.shape(2) || boxes.shape(1) >= py::ssize_t{1} << 32) {
    throw std::invalid_argument("boxes are {images, boxes, 4}, scores {images, classes, boxes}");
  }
  const CandidateBoxes candidates{.corners = boxes.data(),
                                  .scores = scores.data(),
                                  .images = static_cast<std::size_t>(scores.shape(0)),
                                  .classes = static_cast<std::size_t>(scores.shape(1)),
                                  .boxes = static_cast<std::size_t>(scores.shape(2)),
                                  .centred = centred};
  std::vector<KeptBox> kept;
  without_gil([&] {
    const BusyThread busy;
    kept = non_max_suppression(candidates, {.kept_boxes = most_boxes, .overlap = overlap, .score = score},
                               {*row, num_threads});
  });
  static_assert(sizeof(KeptBox) == 3 * sizeof(std::int64_t));
  py::array_t<std::int64_t> result({static_cast<py::ssize_t>(kept.size()), py::ssize_t{3}});
  if (!kept.empty()) std::memcpy(result.mutable_data(), kept.data(), kept.size() * sizeof(KeptBox));
  return result;
}

}  // namespace

void register_non_max_suppression(py::module_& module) {
  module.def("non_max_suppression", &kept_boxes, py::arg("boxes"), py::arg("scores"), py::arg("most_boxes"),
             py::arg("overlap"), py::arg("score"), py::arg("centred"), py::arg("isa"), py::arg("num_threads"));
}

}  // namespace dmlcpu
