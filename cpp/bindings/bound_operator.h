// A compiled operator with its bindings: Python's arrays become the addresses that a dispatch takes.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "operators/operator.h"

namespace dmlcpu {

// Where a tensor stands in the bindings: the name, and the index in a sequence of that name, or none.
using BindingName = std::pair<std::string, std::optional<std::size_t>>;

// (data_type, sizes, strides, owned, output)
using TensorRow = std::tuple<int, std::vector<std::int64_t>, std::vector<std::int64_t>, bool, bool>;

// The quick path accepts numpy arrays that fit as they are; everything else (other array types, mistakes, outputs whose
// memory might overlap another tensor's) goes through `resolve`, a Python callable (bindings, owned, initialized) ->
// (tuple of arrays by tensor number, callable or None), which converts what may be bound and raises otherwise; the
// callable, if there is one, brings converted outputs back when they are written. It must not refer to the object that
// owns this one: the garbage collector cannot see such a cycle.
class BoundOperator {
 public:
  BoundOperator(std::string type, const std::vector<BindingName>& names,
                const std::vector<std::optional<TensorRow>>& tensors,
                std::map<std::string, std::vector<std::int64_t>> attributes, const std::string& isa, int num_threads,
                pybind11::function resolve, pybind11::object result_type);

  const CompiledOperator& plan() const { return *operator_; }
  bool ready() const { return state_.load(std::memory_order_acquire) == State::ready; }

  // By tensor number, none for those that are absent.
  std::span<const std::optional<ArrayRule>> rules() const { return rules_; }

  // False if another call has initialized the operator, or is at it.
  bool initialize(const pybind11::dict& bindings);

  pybind11::object dispatch(const pybind11::dict& bindings) const;

  // A dispatch to addresses that fit the rules, without the GIL, if no output's memory may meet another tensor's; else
  // false.
  bool dispatch_addresses(const TensorPointers& pointers) const;

 private:
  enum class State : std::uint8_t { fresh, initializing, ready };

  struct Name {
    pybind11::str name;
    std::optional<std::size_t> entry;
    std::size_t length;  // of the sequence
  };

  struct Bound {
    TensorPointers pointers{};
    std::array<pybind11::object, kMaxTensors> held;     // the arrays, kept alive whatever the caller does meanwhile
    std::array<pybind11::object, kMaxTensors> outputs;  // what the caller gets back
    std::size_t output_count = 0;
  };

  static PyObject* value_of(const Name& name, const pybind11::dict& bindings);
  static bool take_entry(const Name& name, PyObject*& object, pybind11::object& snapshot);
  void allocate_output(std::size_t tensor, Bound& bound) const;
  bool outputs_overlap(const TensorPointers& pointers) const;
  bool bind_quickly(const pybind11::dict& bindings, Bound& bound) const;
  TensorPointers checked_pointers(const pybind11::tuple& arrays, bool owned) const;
  void bind_resolved(const pybind11::dict& bindings, const pybind11::tuple& arrays, Bound& bound) const;

  std::unique_ptr<CompiledOperator> operator_;
  std::vector<std::optional<ArrayRule>> rules_;
  std::vector<Name> names_;
  pybind11::function resolve_;
  pybind11::object result_type_;
  bool has_owned_ = false;
  std::atomic<State> state_{State::fresh};
};

}  // namespace dmlcpu
