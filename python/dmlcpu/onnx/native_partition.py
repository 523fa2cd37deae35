"""Native graphs under construction, one for each partition of a model, and what they take of its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from dmlcpu.enums import TensorDataType
from dmlcpu.graph.lengths import FreeDesc, decided_by, derived, is_free
from dmlcpu.graph.native_graph import NativeGraph
from dmlcpu.graph.record import Length
from dmlcpu.onnx.constant_arrays import Array, ConstantElements, FreeArray, RepeatedArray
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.values import Tensor
from dmlcpu.tensor import TensorDesc, data_type_of

__all__ = ["NativePartition", "as_bytes", "check_tensor"]

# Of the elements that the operators of native graphs read, write and move. A condition is a byte there, 0 or 1.
_KERNEL_TYPES: Final = frozenset(map(np.dtype, ("f4", "f2", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "?")))
# More than a process can address: strides and bytes are far from overflow.
_MOST_ELEMENTS: Final = 1 << 48


class NativePartition:
    """A native graph under construction.

    Attributes:
        index: Its place among those of the model.
        graph: The graph.
        nodes: Those that have been lowered to it.
        imported: The values from outside that it reads: by name, its number of each.
        exported: The values of its own that other partitions or the caller read, by name.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.graph = NativeGraph()
        self.nodes: list[Node] = []
        self.imported: dict[str, int] = {}
        self.exported: dict[str, Tensor] = {}
        self._descs: dict[
            tuple[Any, ...], FreeDesc
        ] = {}  # by type and lengths: a place in the record and a half, which no number is
        self._constants: dict[int, int] = {}  # their numbers, by the ids of the objects
        self._held: list[ConstantElements] = []  # so that an id stays the object's

    def known_numbers(self, operands: Iterable[Tensor | ConstantElements | None]) -> list[int | None]:
        """Return the numbers that values have in the graph, where each has been checked.

        None of what is not there yet, or absent.
        """
        index, imported, constants = self.index, self.imported, self._constants
        return [
            constants.get(id(operand))  # None is no constant
            if not isinstance(operand, Tensor)
            else operand.number
            if operand.partition == index
            else imported.get(operand.name)
            for operand in operands
        ]

    def desc(self, dtype: np.dtype[Any] | type[np.generic], shape: Sequence[int]) -> TensorDesc | FreeDesc:
        """Return the desc of a packed tensor, one for all of the same lengths; one without axes has one of length 1.

        Raises:
            NotNative: As by ``check_tensor``.
        """
        if not is_free(shape):
            return _desc_of(np.dtype(dtype), tuple(shape))
        key = dtype, *[length.place + 0.5 if isinstance(length, Length) else length for length in shape]
        desc = self._descs.get(key)
        if desc is None:
            check_tensor(dtype, shape)
            desc = self._descs[key] = FreeDesc(_data_type_of(np.dtype(dtype)), tuple(shape))
        return desc

    def add_import(self, tensor: Tensor) -> int:
        """Let the graph read a value from outside that it does not know; return its number there."""
        number = self.imported[tensor.name] = self.graph.add_input(tensor.name, self.desc(tensor.dtype, tensor.shape))
        return number

    def constant_number(self, constant: ConstantElements) -> int:
        """Let the graph read a constant, told by the object; return its number there."""
        number = self._constants.get(id(constant))
        if number is None:
            number = self._constants[id(constant)] = self._added(constant)
            self._held.append(constant)
        return number

    def _added(self, constant: ConstantElements) -> int:
        if not isinstance(constant, FreeArray):
            return self.graph.add_array(as_bytes(constant))
        if isinstance(constant, RepeatedArray):
            desc = self.desc(constant.dtype, constant.shape)
            assert isinstance(desc, FreeDesc)
            return self.graph.add_repeated(as_bytes(constant.repeated), desc)
        is_bool = constant.dtype == np.bool_
        return self.graph.add_derived(derived(as_bytes, constant.derived) if is_bool else constant.derived)


@lru_cache  # most tensors of a network are as another one is
def _desc_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorDesc:
    check_tensor(dtype, shape)
    return TensorDesc(_data_type_of(dtype), shape or (1,))


def check_tensor(dtype: np.dtype[Any] | type[np.generic], shape: Sequence[int]) -> None:
    """Refuse what no native graph has.

    Raises:
        NotNative: It is empty or larger than any memory, has more than 8 axes, or elements of a type that no kernel
            takes.
    """
    lengths = tuple(shape)
    (_check if is_free(lengths) else _check_once)(np.dtype(dtype), lengths)


def _check(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if len(shape) > 8 or not decided_by(_is_taken, *shape):
        raise NotNative(f"a tensor of shape {shape}")
    if dtype not in _KERNEL_TYPES:
        raise NotNative(f"elements of type {dtype.name}")


_check_once: Final = lru_cache(_check)  # as of descs


def _is_taken(*lengths: int) -> bool:
    return 0 < math.prod(lengths) < _MOST_ELEMENTS


def _data_type_of(dtype: np.dtype[Any]) -> TensorDataType:
    return data_type_of(np.dtype(np.uint8) if dtype == np.bool_ else dtype)


def as_bytes(array: Array) -> Array:
    """Return the conditions of an array as native graphs have them; any other array as it is."""
    return array.view(np.uint8) if array.dtype == np.bool_ else array
