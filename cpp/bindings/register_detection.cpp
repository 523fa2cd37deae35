#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/execution_target.h"
#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "kernels/dispatch.h"
#include "operators/detection/non_max_suppression.h"
#include "operators/detection/roi_align.h"
#include "runtime/float_environment.h"
#include "runtime/thread_pool.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Indices = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

py::array_t<std::int64_t> kept_boxes(const Floats& boxes, const Floats& scores, std::size_t most_boxes, float overlap,
                                     const std::optional<float>& score, bool centred, const std::string& isa,
                                     int num_threads) {
  const ExecutionTarget target = execution_target(isa, num_threads);
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
    const DefaultFloatEnvironment environment;
    kept = non_max_suppression(candidates, {.kept_boxes = most_boxes, .overlap = overlap, .score = score}, target);
  });
  static_assert(sizeof(KeptBox) == 3 * sizeof(std::int64_t));
  py::array_t<std::int64_t> result({static_cast<py::ssize_t>(kept.size()), py::ssize_t{3}});
  if (!kept.empty()) std::memcpy(result.mutable_data(), kept.data(), kept.size() * sizeof(KeptBox));
  return result;
}

py::array_t<float> aligned_regions(const Floats& images, const Floats& corners, const Indices& of_images,
                                   std::size_t rows, std::size_t columns, std::size_t samples, float scale,
                                   bool half_pixel, bool largest, const std::string& isa, int num_threads) {
  const ExecutionTarget target = execution_target(isa, num_threads);
  if (images.ndim() != 4 || corners.ndim() != 2 || of_images.ndim() != 1 || corners.shape(1) != 4 ||
      corners.shape(0) != of_images.shape(0)) {
    throw std::invalid_argument("images are {images, channels, height, width}, boxes {regions, 4}, and {regions}");
  }
  const auto size = [&](py::ssize_t axis) { return static_cast<std::size_t>(images.shape(axis)); };
  const RegionImages values{
      .values = images.data(), .images = size(0), .channels = size(1), .height = size(2), .width = size(3)};
  const Regions regions{
      .corners = corners.data(), .images = of_images.data(), .count = static_cast<std::size_t>(of_images.shape(0))};
  const RegionCells cells{.rows = rows,
                          .columns = columns,
                          .samples = samples,
                          .scale = scale,
                          .half_pixel = half_pixel,
                          .largest = largest};
  py::array_t<float> result(
      {of_images.shape(0), images.shape(1), static_cast<py::ssize_t>(rows), static_cast<py::ssize_t>(columns)});
  float* const output = result.mutable_data();
  without_gil([&] {
    const BusyThread busy;
    const DefaultFloatEnvironment environment;
    roi_align(values, regions, cells, output, target);
  });
  return result;
}

}  // namespace

void register_detection(py::module_& module) {
  module.def("non_max_suppression", &kept_boxes, py::arg("boxes"), py::arg("scores"), py::arg("most_boxes"),
             py::arg("overlap"), py::arg("score"), py::arg("centred"), py::arg("isa"), py::arg("num_threads"));
  module.def("roi_align", &aligned_regions, py::arg("images"), py::arg("boxes"), py::arg("of_images"), py::arg("rows"),
             py::arg("columns"), py::arg("samples"), py::arg("scale"), py::arg("half_pixel"), py::arg("largest"),
             py::arg("isa"), py::arg("num_threads"));
}

}  // namespace dmlcpu
