// numpy arrays as the tensors of a desc: no copy, no cast. What is not plainly an array of the right kind is left to
// Python (bindings.py), which converts it or says what is wrong.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operators/operator.h"

namespace dmlcpu {

// To be called when the module is loaded, before anything else here. Otherwise pybind11 would look numpy up at the
// first use, behind a once flag and having let go of the GIL: a fork() amid that would leave the child waiting.
void prepare_numpy();

// The dtype of a tensor's elements; of 4-bit ones, that of the bytes that hold two of them.
pybind11::dtype numpy_dtype(DataType type);

// One tensor's expectations, precomputed.
struct ArrayRule {
  TensorLayout layout;
  std::size_t element_bytes;
  std::size_t span_bytes;
  std::int64_t element_count;
  bool has_gaps;
  bool is_packed;       // in row-major order, by the strides of axes of length 1 too, which arrays show
  DataType bound_type;  // of an array's elements: bytes hold those of 4 bits

  explicit ArrayRule(const TensorLayout& tensor_layout);

  // Whether the array is of exactly the desc's type, aligned, in native byte order, and writable if it is an output.
  bool has_elements_in(const pybind11::array& array) const;

  // The address of the tensor's first element, if the array has elements for it and is either shaped (the desc's sizes
  // and strides; a 0-d array for one element) or flat (1-D, contiguous, at least the tensor's span of elements); else
  // null. Arrays of 4-bit elements are flat, the packed bytes of the span.
  void* accept(const pybind11::array& array) const;

  // The address of the first element if the array is packed and of the desc's very shape, else null.
  void* accept_packed(const pybind11::array& array) const;

  // A new array of the desc's sizes and strides; gaps are zero, elements uninitialised. Of 4-bit elements, the packed
  // bytes, 1-D.
  pybind11::array allocate() const;
};

// Packed without strides. Throws std::invalid_argument for a type beyond all numbers of data types, a rank above 8,
// strides that are more or fewer than the sizes, and packed sizes that overflow.
TensorLayout tensor_layout(int type, const std::vector<std::int64_t>& sizes,
                           const std::optional<std::vector<std::int64_t>>& strides);

// The layout of an array as it lies in memory; one without axes has one of length 1. Throws std::invalid_argument for
// elements of another type, in another byte order or not aligned, strides that are no whole elements going forward, and
// a rank above 8.
TensorLayout tensor_layout(const pybind11::array& array);

// Whether an object is an array of numpy's own class in the machine's byte order, or a scalar of one of numpy's own
// types.
bool is_plain_array(PyObject* object);
// Any array all of whose elements count: those of numpy's masked arrays, a subclass that has a mask, may not.
bool is_unmasked_array(PyObject* object);
bool is_plain_scalar(PyObject* object);

// What a dictionary has of a name, kept alive, or nothing. The dictionary may be the caller's, from which another
// thread takes values out meanwhile.
pybind11::object item_of(const pybind11::dict& dictionary, const pybind11::handle& name);

// The bytes from the first element of an array to the end of its last, 0 if it has none or an axis goes backwards.
std::size_t forward_span_bytes(const pybind11::array& array);

// The address that a caller's object gives a tensor, if it is a numpy array that fits as it is, or for an input a numpy
// scalar that does; else null. held keeps alive what is there, whatever the caller does meanwhile.
void* address_of(const ArrayRule& rule, PyObject* object, pybind11::object& held);

// Whether an output's memory may meet another tensor's, by the address ranges; gaps may make it a false alarm, which
// Python settles. memory_of(i) is that of tensor i, with a null begin where none is bound.
struct BoundMemory {
  const void* begin;
  std::size_t bytes;
  bool output;
};
template <class MemoryOf>
bool outputs_may_overlap(std::size_t count, const MemoryOf& memory_of) {
  for (std::size_t i = 0; i < count; ++i) {
    const BoundMemory output = memory_of(i);
    if (!output.output || output.begin == nullptr) continue;
    const auto* begin = static_cast<const std::uint8_t*>(output.begin);
    for (std::size_t j = 0; j < count; ++j) {
      const BoundMemory other = memory_of(j);
      const auto* other_begin = static_cast<const std::uint8_t*>(other.begin);
      if (j != i && other_begin != nullptr && begin < other_begin + other.bytes && other_begin < begin + output.bytes) {
        return true;
      }
    }
  }
  return false;
}

// What a dispatch returns: the only output, or what result_type makes of several.
pybind11::object result_of(std::span<pybind11::object> outputs, const pybind11::object& result_type);

}  // namespace dmlcpu
