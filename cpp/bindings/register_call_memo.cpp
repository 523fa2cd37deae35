#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/bound_operator.h"
#include "bindings/register.h"

namespace py = pybind11;

namespace dmlcpu {
namespace {

// The arguments of a call, positional ones first; of a list what is in it now.
constexpr std::size_t kMostArguments = 24;
struct Arguments {
  std::array<PyObject*, kMostArguments> objects;
  std::array<py::object, kMostArguments> snapshots;
  std::size_t count = 0;

  void add(PyObject* object) {
    if (PyList_CheckExact(object)) {
      snapshots[count] = py::reinterpret_steal<py::object>(PyList_AsTuple(object));
      if (!snapshots[count]) throw py::error_already_set();
      object = snapshots[count].ptr();
    }
    objects[count++] = object;
  }
};

using Types = std::vector<py::object>;

bool is_of(const Types& types, PyObject* object) {
  const auto is_type = [&](const py::object& type) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.ptr();
  };
  return std::ranges::any_of(types, is_type);
}

// Everything that the checks of a call depend on: of arrays all but the elements, of numbers the values.
class Signature {
 public:
  // constant_types: objects of these count as the same only if they are the same.
  // opaque_bases: views of objects of these are nothing plain, since not their memory tells what they stand for.
  Signature(const Types& constant_types, const Types& opaque_bases)
      : constant_types_(constant_types), opaque_bases_(opaque_bases) {}

  // False if there are too many arguments, or one is nothing plain: then the signature tells too little.
  bool take(const py::tuple& positional, const py::dict& named, Arguments& arguments) {
    const auto positional_count = static_cast<std::size_t>(PyTuple_GET_SIZE(positional.ptr()));
    if (positional_count + named.size() > kMostArguments || !put(positional_count)) return false;
    // Snapshots first: they allocate, which may run anything.
    for (std::size_t i = 0; i < positional_count; ++i) {
      arguments.add(PyTuple_GET_ITEM(positional.ptr(), static_cast<Py_ssize_t>(i)));
    }
    for (const auto& [name, object] : named) {
      if (!put_name(name.ptr())) return false;
      arguments.add(object.ptr());
    }
    for (std::size_t i = 0; i < arguments.count; ++i) {
      if (!put_object(arguments.objects[i])) return false;
    }
    return true;
  }

  bool is_constant(PyObject* object) const { return is_of(constant_types_, object); }

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), count_ * sizeof(std::uint64_t)};
  }

 private:
  enum class Kind : std::uint64_t { none, array, scalar, boolean, integer, real, sequence, constant };

  bool put(Kind kind) { return put(static_cast<std::uint64_t>(kind)); }

  bool put(std::uint64_t word) {
    if (count_ == words_.size()) return false;
    words_[count_++] = word;
    return true;
  }

  bool put_name(PyObject* name) {
    Py_ssize_t length = 0;
    const char* characters = PyUnicode_AsUTF8AndSize(name, &length);
    if (characters == nullptr) {
      PyErr_Clear();
      return false;
    }
    bool fits = put(static_cast<std::uint64_t>(length));
    for (Py_ssize_t i = 0; i < length && fits; ++i) fits = put(static_cast<std::uint8_t>(characters[i]));
    return fits;
  }

  bool put_object(PyObject* object) {
    if (object == Py_None) return put(Kind::none);
    if (is_plain_array(object)) return !is_opaque(object) && put_array(py::reinterpret_borrow<py::array>(object));
    if (is_plain_scalar(object)) return put(Kind::scalar) && put(std::bit_cast<std::uint64_t>(Py_TYPE(object)));
    if (PyTuple_CheckExact(object)) {
      const Py_ssize_t length = PyTuple_GET_SIZE(object);
      bool fits = put(Kind::sequence) && put(static_cast<std::uint64_t>(length));
      for (Py_ssize_t i = 0; i < length && fits; ++i) fits = put_integer(PyTuple_GET_ITEM(object, i));
      return fits;
    }
    if (is_constant(object)) return put(Kind::constant) && put(std::bit_cast<std::uint64_t>(object));
    if (PyBool_Check(object)) return put(Kind::boolean) && put(object == Py_True);
    if (PyFloat_CheckExact(object)) {
      return put(Kind::real) && put(std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(object)));
    }
    return put_integer(object);
  }

  bool put_integer(PyObject* object) {
    if (!PyLong_CheckExact(object)) return false;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0 && put(Kind::integer) && put(static_cast<std::uint64_t>(value));
  }

  bool is_opaque(PyObject* array) const {
    PyObject* base = array;
    while (base != nullptr && py::isinstance<py::array>(base)) base = py::detail::array_proxy(base)->base;
    return base != nullptr && is_of(opaque_bases_, base);
  }

  bool put_array(const py::array& array) {
    using Flags = py::detail::npy_api;
    const auto rank = static_cast<std::uint64_t>(array.ndim());
    const std::uint64_t flags = array.flags() & (Flags::NPY_ARRAY_ALIGNED_ | Flags::NPY_ARRAY_WRITEABLE_);
    bool fits = put(Kind::array) && put(static_cast<std::uint64_t>(array.dtype().num())) && put(flags) && put(rank);
    for (std::uint64_t axis = 0; axis < rank && fits; ++axis) {
      fits = put(static_cast<std::uint64_t>(array.shape()[axis])) &&
             put(static_cast<std::uint64_t>(array.strides()[axis]));
    }
    return fits;
  }

  const Types& constant_types_;
  const Types& opaque_bases_;
  std::array<std::uint64_t, 512> words_;
  std::size_t count_ = 0;
};

// What to do for arguments of a signature: where each tensor's address comes from, and what is returned.
struct Call {
  struct Tensor {
    std::optional<std::size_t> argument;  // an array's or a scalar's elements
    py::object constant;                  // an array that a number has become
    bool without_axes = false;            // a new output
  };

  py::object compiled;  // keeps the operator
  const BoundOperator* bound;
  std::vector<Tensor> tensors;
  py::object result_type;             // of several outputs
  std::vector<py::object> constants;  // which a signature knows by their addresses
};

bool has_elements(PyObject* object) { return is_plain_array(object) || is_plain_scalar(object); }

py::array new_output(const ArrayRule& rule, bool without_axes) {
  if (without_axes) return py::array(numpy_dtype(rule.layout.type), std::vector<py::ssize_t>{});
  return rule.allocate();
}

// Whether a new output is as the rule allocates it, or the only element without axes.
bool is_allocated_by(const ArrayRule& rule, const py::array& output) {
  if (output.ndim() == 0) return rule.span_bytes == rule.element_bytes;
  const bool is_packed = is_four_bits(rule.layout.type);
  const std::size_t bytes =
      is_packed ? rule.span_bytes : rule.element_bytes * static_cast<std::size_t>(rule.element_count);
  return static_cast<std::size_t>(output.ndim()) == (is_packed ? 1 : rule.layout.rank) &&
         static_cast<std::size_t>(output.nbytes()) == bytes && rule.accept(output) != nullptr;
}

// Whether an argument can stand for a tensor whenever the signature is the same: it begins where the array does that
// was bound in its place, and holds as much.
bool stands_for(const ArrayRule& rule, PyObject* argument, const py::object& bound) {
  const py::array array = py::array::ensure(argument);
  if (!array || !rule.has_elements_in(array)) return false;
  if (is_plain_scalar(argument))
    return !rule.layout.output && rule.span_bytes <= static_cast<std::size_t>(array.nbytes());
  return py::isinstance<py::array>(bound) && py::reinterpret_borrow<py::array>(bound).data() == array.data() &&
         rule.span_bytes <= forward_span_bytes(array);
}

// The calls of a function that have been made: one with arguments of the same types, shapes and places in memory needs
// no second check, and no Python but its own frame.
class CallMemo {
 public:
  CallMemo(Types constant_types, Types opaque_bases)
      : constant_types_(std::move(constant_types)), opaque_bases_(std::move(opaque_bases)) {}

  // By tensor, the number of the argument that it comes from, or none, and the array that it became, or None.
  using Bindings = std::vector<std::pair<std::optional<std::size_t>, py::object>>;

  // What the function returns, or None if no such call is known, or an output's memory may meet another tensor's.
  py::object recall(const py::tuple& positional, const py::dict& named) const {
    Signature signature(constant_types_, opaque_bases_);
    Arguments arguments;
    if (!signature.take(positional, named, arguments)) return py::none();
    const std::shared_ptr<const Call> call = find(signature.bytes());
    if (call == nullptr) return py::none();
    const auto rules = call->bound->rules();
    TensorPointers pointers{};
    std::array<py::object, kMaxTensors> held, outputs;
    std::size_t output_count = 0;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const Call::Tensor& tensor = call->tensors[i];
      if (!rules[i]) continue;
      if (tensor.argument) {
        PyObject* object = arguments.objects[*tensor.argument];
        held[i] = is_plain_array(object) ? py::reinterpret_borrow<py::object>(object) : py::array::ensure(object);
        if (!held[i]) return py::none();
      } else {
        held[i] = tensor.constant ? tensor.constant : new_output(*rules[i], tensor.without_axes);
      }
      pointers[i] = const_cast<void*>(py::reinterpret_borrow<py::array>(held[i]).data());
      if (rules[i]->layout.output) outputs[output_count++] = held[i];
    }
    if (!call->bound->dispatch_addresses(pointers)) return py::none();
    return result_of(std::span(outputs).first(output_count), call->result_type);
  }

  // The signature of a call, which is to be remembered if it is made. None if its arguments are more than a signature
  // can tell, or at its first time: many calls never come again, as with numbers that are computed.
  py::object sign(const py::tuple& positional, const py::dict& named) {
    Signature signature(constant_types_, opaque_bases_);
    Arguments arguments;
    if (!signature.take(positional, named, arguments) || !seen_before(signature.bytes())) return py::none();
    return py::bytes(signature.bytes());
  }

  // Remembers a call that has been made, if its arguments are what they were when they were signed, and all that it did
  // follows from that.
  //
  // results: the outputs, as the function returned them.
  void remember(const py::bytes& signed_before, const py::tuple& positional, const py::dict& named,
                const py::object& compiled, const Bindings& bound, const py::tuple& results, py::object result_type) {
    Signature signature(constant_types_, opaque_bases_);
    Arguments arguments;
    if (!signature.take(positional, named, arguments) || signature.bytes() != std::string_view(signed_before)) return;
    Call call{compiled, &compiled.cast<const BoundOperator&>(), {}, std::move(result_type), {}};
    if (!describe(call, arguments, bound, results)) return;
    for (std::size_t i = 0; i < arguments.count; ++i) {
      if (!signature.is_constant(arguments.objects[i])) continue;
      call.constants.push_back(py::reinterpret_borrow<py::object>(arguments.objects[i]));
    }
    insert(signature.bytes(), std::make_shared<const Call>(std::move(call)));
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  using Calls = std::unordered_map<std::string, std::shared_ptr<const Call>, Hash, std::equal_to<>>;

  // Numbers are part of signatures: a program may bring new ones for ever.
  static constexpr std::size_t kMostCalls = 1024, kMostSeen = 1 << 14;

  static bool describe(Call& call, const Arguments& arguments, const Bindings& bound, const py::tuple& results) {
    const auto rules = call.bound->rules();
    if (!call.bound->ready() || bound.size() != rules.size()) return false;
    std::array<bool, kMostArguments> used{};
    std::size_t output = 0;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      call.tensors.emplace_back();
      if (!rules[i]) continue;
      Call::Tensor& tensor = call.tensors[i];
      if (rules[i]->layout.owned || !describe_source(*rules[i], arguments, bound[i], tensor)) return false;
      if (tensor.argument) used[*tensor.argument] = true;
      if (!rules[i]->layout.output) continue;
      if (output >= results.size() || !py::isinstance<py::array>(results[output])) return false;
      const py::array result = results[output++];
      tensor.without_axes = result.ndim() == 0;
      if (!tensor.argument && !is_allocated_by(*rules[i], result)) return false;
    }
    // Of an array that is no tensor the elements count.
    for (std::size_t i = 0; i < arguments.count; ++i) {
      if (has_elements(arguments.objects[i]) && !used[i]) return false;
    }
    return output == results.size();
  }

  static bool describe_source(const ArrayRule& rule, const Arguments& arguments, const Bindings::value_type& bound,
                              Call::Tensor& tensor) {
    const auto& [argument, array] = bound;
    if (argument && *argument >= arguments.count) return false;
    if (argument && has_elements(arguments.objects[*argument])) {
      tensor.argument = argument;
      return stands_for(rule, arguments.objects[*argument], array);
    }
    if (array.is_none()) return rule.layout.output;
    tensor.constant = array;
    return !rule.layout.output && py::isinstance<py::array>(array) &&
           rule.accept(py::reinterpret_borrow<py::array>(array)) != nullptr;
  }

  // By hashes alone: where two signatures have the same one, a call is remembered at its first time, which is no harm.
  bool seen_before(std::string_view signature) {
    const std::lock_guard lock(mutex_);
    if (seen_.size() >= kMostSeen) seen_.clear();
    return !seen_.insert(Hash()(signature)).second;
  }

  std::shared_ptr<const Call> find(std::string_view signature) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(signature);
    return found == calls_.end() ? nullptr : found->second;
  }

  void insert(std::string_view signature, std::shared_ptr<const Call> call) {
    // What is replaced goes after the lock: objects may run anything when they do.
    Calls dropped;
    const std::lock_guard lock(mutex_);
    if (calls_.size() >= kMostCalls) dropped.swap(calls_);
    calls_[std::string(signature)].swap(call);
  }

  Types constant_types_, opaque_bases_;
  mutable std::mutex mutex_;
  Calls calls_;
  std::unordered_set<std::size_t> seen_;
};

}  // namespace

void register_call_memo(py::module_& module) {
  py::class_<CallMemo> type(module, "CallMemo");
  type.def("recall", &CallMemo::recall, py::arg("positional"), py::arg("named"))
      .def("sign", &CallMemo::sign, py::arg("positional"), py::arg("named"))
      .def("remember", &CallMemo::remember, py::arg("signature"), py::arg("positional"), py::arg("named"),
           py::arg("operator"), py::arg("bound"), py::arg("results"), py::arg("result_type"));
  seal(type);
  module.def(
      "new_call_memo",
      [](Types constant_types, Types opaque_bases) {
        return std::make_unique<CallMemo>(std::move(constant_types), std::move(opaque_bases));
      },
      py::arg("constant_types"), py::arg("opaque_bases"));
}

}  // namespace dmlcpu
