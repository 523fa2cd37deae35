// A compiled graph with its bindings: Python's arrays become the addresses that a dispatch takes.
#pragma once

#include <pybind11/numpy.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/given_graph.h"
#include "graph/compiled_graph.h"

namespace dmlcpu {

// Inputs and outputs are bound by name. As with BoundOperator, arrays that fit as they are take a quick path, and
// `resolve`, a Python callable (bindings, sizes of the values that are bound at a dispatch) -> (tuple of arrays in the
// order of these values, None for outputs left out; callable or None), converts the others or raises; the callable, if
// there is one, brings converted outputs back when they are written.
class BoundGraph {
 public:
  BoundGraph(const GivenGraph& given, const std::string& isa, int num_threads, pybind11::function resolve,
             pybind11::object result_type, std::shared_ptr<SessionMemory> shared, const BoundGraph* predecessor);

  const CompiledGraph& graph() const { return *graph_; }

  // Arrays of constants, by value: of all that were not given by one. What a predecessor was given for them must be the
  // same. Throws std::logic_error if another call has begun before.
  void initialize(const std::unordered_map<std::size_t, pybind11::array>& arrays);

  pybind11::object dispatch(const pybind11::dict& bindings) const { return run(bindings, nullptr); }

  // The outputs in a list, in the order of the values, of inputs that are packed arrays of the very shapes that the
  // graph was given; None, and nothing has run, if some are not or there are others.
  pybind11::object run_packed(const pybind11::dict& inputs) const;

  // The outputs, and for each step when it began and how long it took, in nanoseconds.
  pybind11::object profile(const pybind11::dict& bindings) const;

 private:
  struct Binding {
    std::size_t value;
    pybind11::str name;
    ArrayRule rule;
  };

  // What one dispatch holds: the arrays kept alive whatever the caller does meanwhile, and what the caller gets back.
  struct Bound {
    CompiledGraph::Pointers pointers;
    std::vector<pybind11::object> held, outputs;
  };

  CompiledGraph::Pointers constant_pointers(const std::unordered_map<std::size_t, pybind11::array>& arrays) const;
  pybind11::object run(const pybind11::dict& bindings, std::vector<StepTime>* times) const;
  pybind11::tuple bound_sizes() const;
  void allocate_output(const Binding& binding, Bound& bound) const;
  bool bind_packed(const pybind11::dict& inputs, Bound& bound) const;
  bool bind_quickly(const pybind11::dict& bindings, Bound& bound) const;
  void bind_resolved(const pybind11::dict& bindings, const pybind11::tuple& arrays, Bound& bound) const;

  Lineage lineage_;
  std::unique_ptr<CompiledGraph> graph_;
  std::vector<Binding> bound_;
  std::unordered_map<std::size_t, ArrayRule> constants_;  // by value, those that were not given by an array
  std::vector<pybind11::object> arrays_;                  // of the others, until initialize
  pybind11::function resolve_;
  pybind11::object result_type_;
  std::atomic<bool> initializing_{false}, ready_{false};
};

}  // namespace dmlcpu
