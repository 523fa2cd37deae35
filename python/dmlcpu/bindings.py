"""What may be bound to a tensor, beyond the plain numpy arrays that the native module takes by itself.

The native module accepts arrays that fit exactly. It asks here about everything else: other array types, which are
viewed as numpy arrays without a copy; outputs that might overlap; and mistakes, which end in a ``BindingError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlcpu.errors import BindingError, DmlError
from dmlcpu.tensor import TensorDesc, dtype_of, span_in_elements

__all__ = ["BindingResolver", "TensorBinding"]

# Steps of the exact overlap test. Two views of usual strides take a few; a pair that takes more is refused.
_OVERLAP_WORK = 100_000


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """One tensor of an operator as its bindings see it.

    Attributes:
        name: The field, such as ``"input_tensor"``.
        desc: Its desc, or None where the operator was created without the tensor.
        owned: Bound at ``initialize``, not at ``dispatch``.
        output: Written by a dispatch.
    """

    name: str
    desc: TensorDesc | None
    owned: bool
    output: bool

    def fits(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array of the right type has the desc's shape and strides, or is flat and long enough."""
        assert self.desc is not None
        desc = self.desc
        if array.ndim == 0:
            return all(size == 1 for size in desc.sizes)
        if array.ndim == 1 and array.flags.c_contiguous and array.size >= span_in_elements(desc.sizes, desc.strides):
            return True
        return array.shape == tuple(desc.sizes) and all(
            size == 1 or stride == wanted * array.itemsize
            for size, stride, wanted in zip(array.shape, array.strides, desc.element_strides, strict=True)
        )

    def touched(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a view of exactly the elements that the operator reads or writes."""
        assert self.desc is not None
        strides = [stride * array.itemsize for stride in self.desc.element_strides]
        return as_strided(array, tuple(self.desc.sizes), strides)

    def expectation(self) -> str:
        """Say which arrays fit."""
        assert self.desc is not None
        shape, strides = tuple(self.desc.sizes), self.desc.strides
        layout = "packed" if strides is None else f"strides {tuple(strides)} in elements"
        elements = span_in_elements(self.desc.sizes, strides)
        return (
            f"{dtype_of(self.desc.data_type).name} of shape {shape}, {layout}, "
            f"or contiguous 1-D with at least {elements} element{'s' if elements != 1 else ''}"
        )


class BindingResolver:
    """Turns the bindings of one call into numpy arrays that fit their tensors, or says what is wrong."""

    def __init__(self, operator_name: str, tensors: tuple[TensorBinding, ...]) -> None:
        self._operator_name = operator_name
        self._tensors = tensors

    def __call__(
        self, bindings: Mapping[str, Any], owned: bool, initialized: bool
    ) -> tuple[np.ndarray[Any, Any] | None, ...]:
        """Return one array a tensor, None for those that this call does not bind and for outputs left out.

        Args:
            bindings: What the caller gave, by name.
            owned: Whether the call is ``initialize``, else it is ``dispatch``.
            initialized: Whether the owned tensors are there.

        Raises:
            DmlError: It is too early for ``dispatch``.
            BindingError: A name is unknown or missing, a value fits no tensor, or an output overlaps another tensor.
        """
        if not owned and not initialized:
            raise DmlError(f"{self._operator_name}: call initialize with the OWNED_BY_DML tensors before dispatch")
        known = [tensor.name for tensor in self._tensors if tensor.desc is not None and tensor.owned == owned]
        for name in bindings:
            if all(tensor.name != name for tensor in self._tensors):
                expected = f"one of {', '.join(known)}" if known else "no bindings at all"
                raise self._error(name, "a binding, though no tensor has this name", expected)
        arrays = tuple(self._resolve(tensor, bindings.get(tensor.name), owned) for tensor in self._tensors)
        self._check_overlaps(arrays)
        return arrays

    def _error(self, name: str, got: str, expected: str) -> BindingError:
        return BindingError(f"{self._operator_name}: {name}: got {got}, expected {expected}", name)

    def _resolve(self, tensor: TensorBinding, value: Any, owned: bool) -> np.ndarray[Any, Any] | None:
        if tensor.desc is None:
            if value is not None:
                raise self._error(tensor.name, "a binding", "none: the operator was created without this tensor")
            return None
        if tensor.owned != owned:
            if value is not None:
                call, flag = ("initialize", "is") if tensor.owned else ("dispatch", "is not")
                raise self._error(tensor.name, "a binding", f"it at {call}: its desc {flag} flagged OWNED_BY_DML")
            return None
        if value is None:
            if tensor.output:
                return None
            raise self._error(tensor.name, "no binding", tensor.expectation())
        array = self._view(tensor, value)
        self._check(tensor, array)
        return array

    def _view(self, tensor: TensorBinding, value: Any) -> np.ndarray[Any, Any]:
        try:
            return _view_of(value)
        except MemoryError:
            raise
        except Exception as error:  # a foreign object may raise anything
            got = f"an object of type {type(value).__name__} ({error})"
            raise self._error(tensor.name, got, tensor.expectation() + "; nothing is converted") from error

    def _check(self, tensor: TensorBinding, array: np.ndarray[Any, Any]) -> None:
        assert tensor.desc is not None
        got = f"{array.dtype} of shape {array.shape}"
        if array.dtype != dtype_of(tensor.desc.data_type):
            raise self._error(tensor.name, got, tensor.expectation())
        if not array.flags.aligned:
            raise self._error(tensor.name, f"{got} at an odd address", "elements aligned to their size")
        if not tensor.fits(array):
            got += f" and strides {array.strides} in bytes"
            raise self._error(tensor.name, got, tensor.expectation())
        if tensor.output and not array.flags.writeable:
            raise self._error(tensor.name, f"{got}, read-only", "an array that can be written")

    def _check_overlaps(self, arrays: tuple[np.ndarray[Any, Any] | None, ...]) -> None:
        bound = [(tensor, array) for tensor, array in zip(self._tensors, arrays, strict=True) if array is not None]
        for tensor, array in bound:
            if not tensor.output:
                continue
            for other, other_array in bound:
                if other is tensor or not np.may_share_memory(array, other_array):
                    continue
                overlap = "overlaps"
                try:
                    # numpy's stub knows the two special limits only.
                    if not np.shares_memory(
                        tensor.touched(array),
                        other.touched(other_array),
                        _OVERLAP_WORK,  # type: ignore[arg-type]
                    ):
                        continue
                except np.exceptions.TooHardError:
                    overlap = "may overlap"
                raise self._error(tensor.name, f"memory that {overlap} {other.name}'s", "memory of its own")


def _view_of(value: Any) -> np.ndarray[Any, Any]:
    """Return the numpy array behind any kind of array, without a copy; raise anything if it is none."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        array = np.asarray(value)
        array.flags.writeable = False  # a scalar cannot change: what is written to this copy of it would be lost
        return array
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(memoryview(value))
