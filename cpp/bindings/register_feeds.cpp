#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

// What is to be fed under a name: its dtype, and its lengths, if their number is told, None where one is free.
using Feed = std::tuple<py::str, py::object, std::optional<std::vector<std::optional<py::ssize_t>>>>;

bool fits(const py::array& array, const std::optional<std::vector<std::optional<py::ssize_t>>>& lengths) {
  if (!lengths) return true;
  return std::equal(
      array.shape(), array.shape() + array.ndim(), lengths->begin(), lengths->end(),
      [](py::ssize_t length, const std::optional<py::ssize_t>& told) { return !told || length == *told; });
}

// What a model is fed, and arrays that are just that.
class PackedFeeds {
 public:
  explicit PackedFeeds(std::vector<Feed> feeds) : feeds_(std::move(feeds)) {}

  // The shape of each array; None if there are others, or some do not fit, or are not packed arrays of numpy's own
  // class with the very dtype.
  py::object shapes(const py::dict& arrays) const {
    constexpr int kPacked = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
    if (arrays.size() != feeds_.size()) return py::none();
    py::tuple shapes(feeds_.size());
    for (std::size_t i = 0; i < feeds_.size(); ++i) {
      const auto& [name, dtype, lengths] = feeds_[i];
      const py::object item = item_of(arrays, name);
      if (!item || !is_plain_array(item.ptr())) return py::none();
      const auto array = py::reinterpret_borrow<py::array>(item);
      if ((array.flags() & kPacked) != kPacked || !array.dtype().is(dtype) || !fits(array, lengths)) return py::none();
      py::tuple shape(static_cast<std::size_t>(array.ndim()));
      for (std::size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = py::int_(array.shape()[axis]);
      shapes[i] = std::move(shape);
    }
    return shapes;
  }

 private:
  std::vector<Feed> feeds_;
};

}  // namespace

void register_feeds(py::module_& module) {
  py::class_<PackedFeeds> feeds(module, "PackedFeeds");
  feeds.def("shapes", &PackedFeeds::shapes, py::arg("arrays"));
  seal(feeds);
  module.def(
      "new_packed_feeds", [](std::vector<Feed> inputs) { return std::make_unique<PackedFeeds>(std::move(inputs)); },
      py::arg("inputs"));
}

}  // namespace dmlcpu
