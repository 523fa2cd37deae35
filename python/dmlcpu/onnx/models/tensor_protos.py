"""The tensors of ONNX models: where they are, and the arrays that they stand for."""

from __future__ import annotations

import math
import os.path
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.nibbles import packed_length, unpacked
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.models.texts import check_file_names, check_initializer_names
from dmlcpu.tensor import row_major_strides

__all__ = ["LARGEST_RANK", "absent_file", "array_of", "constant_of", "has_external_data", "make_dense", "tensors_of"]

# Types whose elements ``raw_data`` holds as they lie in memory, and the field that may hold them instead, with the type
# of its numbers.
_PLAIN: Final[dict[int, tuple[np.dtype[Any], str, np.dtype[Any]]]] = {
    number: (np.dtype(own), field, np.dtype(stored))
    for number, own, field, stored in (
        (onnx.TensorProto.FLOAT, "<f4", "float_data", "<f4"),
        (onnx.TensorProto.INT8, "<i1", "int32_data", "<i4"),
        (onnx.TensorProto.UINT8, "<u1", "int32_data", "<i4"),
        (onnx.TensorProto.INT32, "<i4", "int32_data", "<i4"),
        (onnx.TensorProto.INT64, "<i8", "int64_data", "<i8"),
    )
}

# Types of which ``raw_data`` holds two elements in a byte; none where onnx has types of its own for them,
# as early versions do.
_NIBBLES: Final[dict[int, np.dtype[Any]]] = {
    number: dtype
    for number in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
    if (dtype := np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))).name in ("int4", "uint4")
}
_DATA_TYPES: Final = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
# No processor addresses more bytes.
_MOST_ELEMENTS: Final = 1 << 48
_MOST_BYTES: Final = 1 << 31  # that protobuf holds
LARGEST_RANK: Final = 32
"""Of numpy's arrays, in all of its versions."""
_EXTERNAL: Final = onnx.TensorProto.EXTERNAL
_TENSOR: Final = onnx.AttributeProto.TENSOR
_TENSORS: Final = onnx.AttributeProto.TENSORS
_OF_GRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
# Of most attributes.
_PLAIN_KINDS: Final = (onnx.AttributeProto.INTS, onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT)


def array_of(tensor: onnx.TensorProto, raw_data: memoryview | None = None) -> Array:
    """Return the elements of a tensor; what models have most of is read here, which is quick, the rest by onnx.

    Args:
        tensor: Where they are, if they are not elsewhere.
        raw_data: The tensor's, if it has been taken out of it.

    Raises:
        Exception: Whatever a malformed tensor makes numpy or onnx raise.
    """
    plain = _PLAIN.get(tensor.data_type)
    if tensor.data_location == _EXTERNAL:
        where = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        raise ValueError(
            f"its elements are in a file of their own, {where!r}: pass the path of the model, not its bytes"
        )
    if plain is None or tensor.HasField("segment"):
        nibbles = _nibbles_of(tensor, raw_data)
        if nibbles is not None:
            return nibbles
        if raw_data is not None:
            tensor.raw_data = bytes(raw_data)
        whole: Array = onnx.numpy_helper.to_array(tensor)
        return whole
    own, field, stored = plain
    shape = tuple(tensor.dims[:])
    data = tensor.raw_data if tensor.HasField("raw_data") else raw_data
    if data is not None:
        array: Array = np.frombuffer(data, own).reshape(shape)
        return array if array.flags.aligned else array.copy()
    numbers = getattr(tensor, field)
    # Protobuf's own conversion is quick for many numbers, but not for the one of a scale or a zero point.
    array = np.array(numbers[:] if len(numbers) == 1 else numbers, stored).astype(own, copy=False)
    return array.reshape(shape)


def _nibbles_of(tensor: onnx.TensorProto, raw_data: memoryview | None) -> Array | None:
    """Return elements of 4 bits, each in a byte; None if they are none, or not as most models have them."""
    dtype = _NIBBLES.get(tensor.data_type)
    if dtype is None or tensor.HasField("segment"):
        return None
    data = tensor.raw_data if tensor.HasField("raw_data") else raw_data
    shape = tuple(tensor.dims[:])
    count = math.prod(shape)
    if data is None or len(data) != packed_length(count):
        return None
    return unpacked(np.frombuffer(data, np.uint8), count).view(dtype).reshape(shape)


def has_external_data(model: onnx.ModelProto) -> bool:
    """Return whether the elements of some tensor are in another file."""
    return any(tensor.data_location == _EXTERNAL for tensor in tensors_of(model))


def absent_file(model: onnx.ModelProto, folder: Path) -> str:
    """Return the name of a file that a model has elements in and that is not in its folder; "" if all are there.

    Raises:
        InvalidModelError: A name is not UTF-8.
    """
    for tensor in tensors_of(model):
        if tensor.data_location == _EXTERNAL:
            places = [entry.value for entry in tensor.external_data if entry.key == "location"]
            check_file_names(places)
            for place in places:
                if not os.path.lexists(folder / place):
                    return str(place)
    return ""


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the initializers, and the tensors that are attributes, those of subgraphs and functions included."""
    for part in (model.graph, *model.functions):
        yield from _tensors_of(part)


def _tensors_of(part: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.TensorProto]:
    """Yield the initializers, and the tensors that are attributes, those of subgraphs included."""
    if isinstance(part, onnx.GraphProto):
        yield from part.initializer
    for node in part.node:
        for attribute in node.attribute[:]:
            kind = attribute.type
            if kind in _PLAIN_KINDS:
                continue
            if kind == _TENSOR:
                yield attribute.t
            elif kind == _TENSORS:
                yield from attribute.tensors
            elif kind in _OF_GRAPHS:
                for graph in graphs_within((attribute,)):
                    yield from _tensors_of(graph)


def constant_of(tensor: onnx.TensorProto, raw_data: memoryview | None = None) -> Array:
    """Return the array of an initializer, as ``array_of``.

    Raises:
        InvalidModelError: It is malformed; the message names it.
    """
    dimensions = tensor.dims[:]
    if dimensions and min(dimensions) < 0:
        raise InvalidModelError(f"initializer {tensor.name!r}: got dimensions {dimensions}")
    if tensor.data_type not in _DATA_TYPES:
        got = f"got data type {tensor.data_type}, expected one of ONNX's"
        raise InvalidModelError(f"initializer {tensor.name!r}: {got}")
    try:
        return array_of(tensor, raw_data)
    except Exception as error:  # whatever a malformed tensor makes numpy or onnx raise
        raise InvalidModelError(f"initializer {tensor.name!r}: {error}") from None


def make_dense(model: onnx.ModelProto, to_run: bool) -> Mapping[int, memoryview]:
    """Make dense initializers of the sparse ones, those of subgraphs and functions included.

    Args:
        model: Is changed.
        to_run: Whether elements need not be in the model: zeros take no memory until something is done to them.

    Returns:
        The raw data of initializers of the main graph that have none, by index.

    Raises:
        InvalidModelError: A sparse initializer is malformed, or protobuf does not hold so many elements.
        MemoryError: There is no memory for so many elements.
    """
    outside: dict[int, memoryview] = {}
    held = 0
    for part in (model.graph, *model.functions):
        for graph in _graphs_of(part):
            check_initializer_names([sparse.values.name for sparse in graph.sparse_initializer])
            for sparse in graph.sparse_initializer:
                dense = _dense_constant_of(sparse)
                tensor = graph.initializer.add(
                    name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims[:]
                )
                if to_run and graph is model.graph and tensor.data_type in _PLAIN:
                    outside[len(graph.initializer) - 1] = dense.reshape(-1).view(np.uint8).data
                    continue
                held += dense.nbytes
                if held > _MOST_BYTES:
                    raise InvalidModelError(f"initializer {tensor.name!r}: got dimensions {list(dense.shape)}")
                tensor.raw_data = onnx.numpy_helper.from_array(dense).raw_data
            del graph.sparse_initializer[:]
    return outside


def _graphs_of(part: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and those within it or within a function."""
    if isinstance(part, onnx.GraphProto):
        yield part
    for node in part.node:
        for graph in graphs_within(node.attribute):
            yield from _graphs_of(graph)


def _dense_constant_of(sparse: onnx.SparseTensorProto) -> Array:
    """Return the array of a sparse initializer: 0 but for what it holds; where it tells two values, the last of them.

    Raises:
        InvalidModelError: It is malformed; the message names it.
        MemoryError: There is no memory for so many elements.
    """
    name, shape = sparse.values.name, tuple(sparse.dims[:])
    if _EXTERNAL in (sparse.values.data_location, sparse.indices.data_location):
        raise InvalidModelError(f"initializer {name!r}: it is sparse, and in another file")
    values, indices = constant_of(sparse.values), constant_of(sparse.indices)
    # numpy multiplies the lengths of an array without elements too, but for those that are 0.
    if min(shape, default=0) < 0 or math.prod(filter(None, shape)) > _MOST_ELEMENTS or len(shape) > LARGEST_RANK:
        raise InvalidModelError(f"initializer {name!r}: got dimensions {list(shape)}")
    if values.dtype.kind != "O" and 0 in shape and not values.size:
        return np.zeros(shape, values.dtype)
    forms = ((values.size,), (values.size, len(shape)))
    if values.ndim != 1 or values.dtype.kind == "O" or indices.dtype != np.int64 or indices.shape not in forms:
        got = f"{values.dtype} values of shape {values.shape}, {indices.dtype} indices of shape {indices.shape}"
        raise InvalidModelError(f"initializer {name!r}: got {got}, expected numbers, and an int64 for each or its axes")
    lengths = np.array(shape if indices.ndim == 2 else [math.prod(shape)], np.int64)
    places = indices.reshape(values.size, lengths.size)
    if ((places < 0) | (places >= lengths)).any():
        raise InvalidModelError(f"initializer {name!r}: an index is beyond its dimensions {list(shape)}")
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[indices if indices.ndim == 1 else places @ np.array(row_major_strides(shape), np.int64)] = values
    return dense.reshape(shape)
