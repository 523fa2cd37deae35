#include "bindings/arrays.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/python_call.h"
#include "operators/strides/packed_layout.h"
#include "runtime/recycled_memory.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

// numpy accepts this name of the half type; C++20 has no type to ask with.
constexpr const char* kFloat16Name = "float16";

// numpy says '=' for most dtypes of the machine's byte order, but spells it out for those of some buffers.
constexpr char kNativeOrder = std::endian::native == std::endian::little ? '<' : '>';

// numpy.generic, kept for the life of the process; null before prepare_numpy.
PyTypeObject* numpy_scalar_type = nullptr;

bool is_native(const py::dtype& dtype) {
  const char order = dtype.byteorder();
  return order == '=' || order == '|' || order == kNativeOrder;
}

// By what elements are rather than by the number that numpy gives their C type: the machine's long and long long are
// the same. From kFirstForeignNumber on dtypes are other packages', whatever kind they say they are.
constexpr int kFirstForeignNumber = 256;
DataType data_type_of(const py::dtype& dtype) {
  constexpr DataType kSigned[] = {DataType::int8, DataType::int16, DataType::unknown, DataType::int32};
  constexpr DataType kUnsigned[] = {DataType::uint8, DataType::uint16, DataType::unknown, DataType::uint32};
  const py::ssize_t bytes = dtype.itemsize();
  const char kind = dtype.kind();
  if (!is_native(dtype) || dtype.num() >= kFirstForeignNumber) return DataType::unknown;
  if (bytes >= 1 && bytes <= 4) {
    if (kind == 'i') return kSigned[bytes - 1];
    if (kind == 'u') return kUnsigned[bytes - 1];
    if (kind == 'f') return bytes == 4 ? DataType::float32 : DataType::float16;
  }
  return bytes == 8 && kind == 'i' ? DataType::int64 : DataType::unknown;
}

bool has_flag(const py::array& array, int flag) { return (array.flags() & flag) != 0; }

bool is_shaped(const TensorLayout& layout, std::size_t element_bytes, const py::array& array) {
  if (static_cast<std::size_t>(array.ndim()) != layout.rank) return false;
  const py::ssize_t* shape = array.shape();
  const py::ssize_t* strides = array.strides();
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (shape[axis] != layout.sizes[axis]) return false;
    if (shape[axis] != 1 && strides[axis] != layout.strides[axis] * static_cast<py::ssize_t>(element_bytes))
      return false;
  }
  return true;
}

}  // namespace

void prepare_numpy() {
  // With the first dtype pybind11 finds numpy's functions.
  static_cast<void>(py::dtype::of<float>());
  py::object generic = py::module_::import("numpy").attr("generic");
  numpy_scalar_type = reinterpret_cast<PyTypeObject*>(generic.release().ptr());
}

py::dtype numpy_dtype(DataType type) {
  switch (type) {
    case DataType::float32:
      return py::dtype::of<float>();
    case DataType::float16:
      return py::dtype(kFloat16Name);
    case DataType::uint32:
      return py::dtype::of<std::uint32_t>();
    case DataType::uint16:
      return py::dtype::of<std::uint16_t>();
    case DataType::uint8:
    case DataType::uint4:
    case DataType::int4:
      return py::dtype::of<std::uint8_t>();
    case DataType::int32:
      return py::dtype::of<std::int32_t>();
    case DataType::int16:
      return py::dtype::of<std::int16_t>();
    case DataType::int8:
      return py::dtype::of<std::int8_t>();
    case DataType::int64:
      return py::dtype::of<std::int64_t>();
    case DataType::unknown:
      break;
  }
  throw std::invalid_argument("no numpy dtype for this data type");
}

ArrayRule::ArrayRule(const TensorLayout& tensor_layout)
    : layout(tensor_layout),
      element_bytes(element_size(layout.type)),
      span_bytes(layout.span_bytes()),
      element_count(layout.element_count()),
      has_gaps(layout.span() != element_count),
      is_packed(layout == packed(layout)),
      bound_type(is_four_bits(layout.type) ? DataType::uint8 : layout.type) {}

bool ArrayRule::has_elements_in(const py::array& array) const {
  return data_type_of(array.dtype()) == bound_type && has_flag(array, py::detail::npy_api::NPY_ARRAY_ALIGNED_) &&
         (!layout.output || array.writeable());
}

void* ArrayRule::accept(const py::array& array) const {
  using Flags = py::detail::npy_api;
  if (!has_elements_in(array)) return nullptr;
  const bool scalar = array.ndim() == 0 && element_count == 1;
  const bool flat = array.ndim() == 1 && has_flag(array, Flags::NPY_ARRAY_C_CONTIGUOUS_) &&
                    static_cast<std::size_t>(array.nbytes()) >= span_bytes;
  const bool shaped = !is_four_bits(layout.type) && is_shaped(layout, element_bytes, array);
  if (!scalar && !flat && !shaped) return nullptr;
  return const_cast<void*>(array.data());
}

void* ArrayRule::accept_packed(const py::array& array) const {
  if (static_cast<std::size_t>(array.ndim()) != layout.rank || !has_flag(array, py::array::c_style)) return nullptr;
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (array.shape(static_cast<py::ssize_t>(axis)) != layout.sizes[axis]) return nullptr;
  }
  return accept(array);
}

py::array ArrayRule::allocate() const {
  const py::dtype dtype = numpy_dtype(layout.type);
  if (is_four_bits(layout.type)) {
    py::array packed(dtype, std::vector<py::ssize_t>{static_cast<py::ssize_t>(span_bytes)});
    auto* bytes = static_cast<std::uint8_t*>(packed.mutable_data());
    if (has_gaps) std::fill_n(bytes, span_bytes, std::uint8_t{0});
    bytes[span_bytes - 1] = 0;
    return packed;
  }
  std::vector<py::ssize_t> shape(layout.rank), strides(layout.rank);
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    shape[axis] = layout.sizes[axis];
    strides[axis] = layout.strides[axis] * static_cast<py::ssize_t>(element_bytes);
  }
  if (span_bytes >= kRecycledSize && !has_gaps) {
    RecycledMemory memory = recycled_memory(span_bytes);
    void* data = memory->bytes.data();
    const py::capsule owner(memory.get(), [](void* block) { RecycleBlock()(static_cast<RecycledBlock*>(block)); });
    memory.release();
    return py::array(dtype, std::move(shape), std::move(strides), data, owner);
  }
  if (is_packed) return py::array(dtype, std::move(shape));
  py::array owner(dtype, std::vector<py::ssize_t>{static_cast<py::ssize_t>(span_bytes / element_bytes)});
  auto* data = static_cast<std::uint8_t*>(owner.mutable_data());
  if (has_gaps) std::fill_n(data, span_bytes, std::uint8_t{0});
  return py::array(dtype, std::move(shape), std::move(strides), data, owner);
}

TensorLayout tensor_layout(int type, const std::vector<std::int64_t>& sizes,
                           const std::optional<std::vector<std::int64_t>>& strides) {
  if (type < 0 || type > std::numeric_limits<std::underlying_type_t<DataType>>::max()) {
    throw std::invalid_argument("no data type has this number");
  }
  if (sizes.size() > kMaxRank) throw std::invalid_argument("a tensor's rank is above 8");
  if (strides && strides->size() != sizes.size()) throw std::invalid_argument("a tensor has a stride for each size");
  TensorLayout layout{.type = static_cast<DataType>(type), .rank = sizes.size()};
  std::copy(sizes.begin(), sizes.end(), layout.sizes.begin());
  if (strides) {
    std::copy(strides->begin(), strides->end(), layout.strides.begin());
    return layout;
  }
  return packed(layout);
}

TensorLayout tensor_layout(const py::array& array) {
  const DataType type = data_type_of(array.dtype());
  if (type == DataType::unknown) throw std::invalid_argument("no data type is this numpy dtype");
  if (!has_flag(array, py::detail::npy_api::NPY_ARRAY_ALIGNED_)) throw std::invalid_argument("an array is not aligned");
  std::vector<std::int64_t> sizes(array.shape(), array.shape() + array.ndim());
  if (sizes.empty()) sizes.push_back(1);
  if (has_flag(array, py::array::c_style)) return tensor_layout(static_cast<int>(type), sizes, std::nullopt);
  std::vector<std::int64_t> strides;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const py::ssize_t stride = array.strides(static_cast<py::ssize_t>(axis));
    const bool is_whole = stride >= 0 && stride % array.itemsize() == 0;
    // What numpy says of the stride of an axis of length 1 means nothing.
    if (!is_whole && sizes[axis] != 1) throw std::invalid_argument("strides are no whole elements");
    strides.push_back(is_whole ? stride / array.itemsize() : 0);
  }
  return tensor_layout(static_cast<int>(type), sizes, strides);
}

bool is_plain_array(PyObject* object) {
  return Py_TYPE(object) == py::detail::npy_api::get().PyArray_Type_ &&
         is_native(py::reinterpret_borrow<py::array>(object).dtype());
}

bool is_unmasked_array(PyObject* object) {
  if (Py_TYPE(object) == py::detail::npy_api::get().PyArray_Type_) return true;
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return py::isinstance<py::array>(object) && PyObject_HasAttrString(type, "mask") == 0;
}

bool is_plain_scalar(PyObject* object) {
  return PyObject_TypeCheck(object, numpy_scalar_type) != 0 && !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE);
}

py::object item_of(const py::dict& dictionary, const py::handle& name) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* item = nullptr;
  if (PyDict_GetItemRef(dictionary.ptr(), name.ptr(), &item) < 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(item);
#else
  PyObject* item = PyDict_GetItemWithError(dictionary.ptr(), name.ptr());
  if (item == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return py::reinterpret_borrow<py::object>(item);
#endif
}

std::size_t forward_span_bytes(const py::array& array) {
  py::ssize_t bytes = array.itemsize();
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    if (array.shape(axis) == 0 || (array.strides(axis) < 0 && array.shape(axis) > 1)) return 0;
    bytes += (array.shape(axis) - 1) * array.strides(axis);
  }
  return static_cast<std::size_t>(bytes);
}

void* address_of(const ArrayRule& rule, PyObject* object, py::object& held) {
  if (is_unmasked_array(object)) {
    held = py::reinterpret_borrow<py::object>(object);
    return rule.accept(py::reinterpret_borrow<py::array>(object));
  }
  if (rule.layout.output || PyObject_TypeCheck(object, numpy_scalar_type) == 0) return nullptr;
  py::array array = py::array::ensure(object);
  void* address = array ? rule.accept(array) : nullptr;
  held = std::move(array);
  return address;
}

py::object result_of(std::span<py::object> outputs, const py::object& result_type) {
  if (outputs.size() == 1) return std::move(outputs[0]);
  py::tuple results(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) results[i] = std::move(outputs[i]);
  return call_python(result_type, results);
}

}  // namespace dmlcpu
