#include "bindings/call_memo.h"

#include <array>
#include <cstdint>
#include <span>

#include "bindings/arrays.h"
#include "bindings/bound_operator.h"

namespace py = pybind11;

namespace dmlcpu {

// What to do for arguments of a signature: where each tensor's address comes from, and what is returned.
struct KnownCall {
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

namespace {

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

bool describe_source(const ArrayRule& rule, const Arguments& arguments, const CallMemo::Bindings::value_type& bound,
                     KnownCall::Tensor& tensor) {
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

bool describe(KnownCall& call, const Arguments& arguments, const CallMemo::Bindings& bound, const py::tuple& results) {
  const auto rules = call.bound->rules();
  if (!call.bound->ready() || bound.size() != rules.size()) return false;
  std::array<bool, kMostArguments> used{};
  std::size_t output = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    call.tensors.emplace_back();
    if (!rules[i]) continue;
    KnownCall::Tensor& tensor = call.tensors[i];
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

}  // namespace

py::object CallMemo::recall(const py::tuple& positional, const py::dict& named) const {
  CallSignature signature(constant_types_, opaque_bases_);
  Arguments arguments;
  if (!signature.take(positional, named, arguments)) return py::none();
  const std::shared_ptr<const KnownCall> call = find(signature.bytes());
  if (call == nullptr) return py::none();
  const auto rules = call->bound->rules();
  TensorPointers pointers{};
  std::array<py::object, kMaxTensors> held, outputs;
  std::size_t output_count = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const KnownCall::Tensor& tensor = call->tensors[i];
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

py::object CallMemo::sign(const py::tuple& positional, const py::dict& named) {
  CallSignature signature(constant_types_, opaque_bases_);
  Arguments arguments;
  if (!signature.take(positional, named, arguments) || !seen_before(signature.bytes())) return py::none();
  return py::bytes(signature.bytes());
}

void CallMemo::remember(const py::bytes& signed_before, const py::tuple& positional, const py::dict& named,
                        const py::object& compiled, const Bindings& bound, const py::tuple& results,
                        py::object result_type) {
  CallSignature signature(constant_types_, opaque_bases_);
  Arguments arguments;
  if (!signature.take(positional, named, arguments) || signature.bytes() != std::string_view(signed_before)) return;
  KnownCall call{compiled, &compiled.cast<const BoundOperator&>(), {}, std::move(result_type), {}};
  if (!describe(call, arguments, bound, results)) return;
  for (std::size_t i = 0; i < arguments.count; ++i) {
    if (!signature.is_constant(arguments.objects[i])) continue;
    call.constants.push_back(py::reinterpret_borrow<py::object>(arguments.objects[i]));
  }
  insert(signature.bytes(), std::make_shared<const KnownCall>(std::move(call)));
}

// By hashes alone: where two signatures have the same one, a call is remembered at its first time, which is no harm.
bool CallMemo::seen_before(std::string_view signature) {
  const std::lock_guard lock(mutex_);
  if (seen_.size() >= kMostSeen) seen_.clear();
  return !seen_.insert(Hash()(signature)).second;
}

std::shared_ptr<const KnownCall> CallMemo::find(std::string_view signature) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(signature);
  return found == calls_.end() ? nullptr : found->second;
}

void CallMemo::insert(std::string_view signature, std::shared_ptr<const KnownCall> call) {
  // What is replaced goes after the lock: objects may run anything when they do.
  Calls dropped;
  const std::lock_guard lock(mutex_);
  if (calls_.size() >= kMostCalls) dropped.swap(calls_);
  calls_[std::string(signature)].swap(call);
}

}  // namespace dmlcpu
