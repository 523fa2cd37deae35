// numpy arrays as the tensors of a desc: no copy, no cast. What is not plainly an array of the right kind is left to
// Python (bindings.py), which converts it or says what is wrong.
#pragma once

#include <pybind11/numpy.h>

#include "operators/operator.h"

namespace dmlcpu {

// The dtype of a tensor's elements; of 4-bit ones, that of the bytes that hold two of them.
pybind11::dtype numpy_dtype(DataType type);

// One tensor's expectations, precomputed.
struct ArrayRule {
  TensorLayout layout;
  std::size_t element_bytes;
  std::size_t span_bytes;
  std::int64_t element_count;
  int dtype_number;

  explicit ArrayRule(const TensorLayout& tensor_layout);

  // The address of the tensor's first element, if the array is of exactly the desc's type, aligned, in native byte
  // order, writable if it is an output, and either shaped (the desc's sizes and strides; a 0-d array for one element)
  // or flat (1-D, contiguous, at least the tensor's span of elements); else null. Arrays of 4-bit elements are flat,
  // the packed bytes of the span.
  void* accept(const pybind11::array& array) const;

  // A new array of the desc's sizes and strides; gaps are zero, elements uninitialised. Of 4-bit elements, the packed
  // bytes, 1-D.
  pybind11::array allocate() const;
};

}  // namespace dmlcpu
