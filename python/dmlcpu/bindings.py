"""What may be bound to a tensor, beyond the plain numpy arrays that the native module takes by itself.

The native module accepts arrays that fit exactly. It asks here about everything else: other array types, which are
viewed as numpy arrays without a copy; outputs that might overlap; and mistakes, which end in a ``BindingError``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlcpu.errors import BindingError, DmlError
from dmlcpu.exported_arrays import view_to_write
from dmlcpu.nibbles import packed, packed_length, unpacked
from dmlcpu.schema import place_of
from dmlcpu.shown_values import counted, message_of
from dmlcpu.tensor import TensorDesc, dtype_of, has_data_type, is_four_bits, span_in_elements

__all__ = ["WITHOUT_MASK", "BindingResolver", "TensorBinding", "as_array", "has_masked_elements"]

WITHOUT_MASK = "one without masked elements, such as its filled()"
"""What is expected in place of an array that has some."""

# What numpy makes an array of, in a type of its own.
_NUMBERS = frozenset((bool, int, float, list, tuple))
# Steps of the exact overlap test. Two views of usual strides take a few; a pair that takes more is refused.
_OVERLAP_WORK = 100_000


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """One tensor of an operator as its bindings see it.

    Attributes:
        name: The field, such as ``"input_tensor"`` or ``"quantization_tensors[1]"``.
        desc: Its desc, or None where the operator was created without the tensor.
        owned: Bound at ``initialize``, not at ``dispatch``.
        output: Written by a dispatch.
    """

    name: str
    desc: TensorDesc | None
    owned: bool
    output: bool

    @property
    def span(self) -> int:
        """The elements from the first to the last, gaps included."""
        assert self.desc is not None
        return span_in_elements(self.desc.sizes, self.desc.strides)

    def is_packed(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array holds the tensor's elements in pairs, two in a byte."""
        assert self.desc is not None
        return is_four_bits(self.desc.data_type) and array.dtype == np.uint8

    def has_type(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array holds elements of the tensor's type, packed ones included."""
        assert self.desc is not None
        return has_data_type(array.dtype, self.desc.data_type) or self.is_packed(array)

    def fits(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array of the right type has the desc's shape and strides, or is flat and long enough."""
        assert self.desc is not None
        desc = self.desc
        if array.ndim == 0:
            return all(size == 1 for size in desc.sizes)
        is_packed = self.is_packed(array)
        needed = packed_length(self.span) if is_packed else self.span
        if array.ndim == 1 and array.flags.c_contiguous and array.size >= needed:
            return True
        return (
            not is_packed
            and array.shape == tuple(desc.sizes)
            and all(
                size == 1 or stride == wanted * array.itemsize
                for size, stride, wanted in zip(array.shape, array.strides, desc.element_strides, strict=True)
            )
        )

    def touched(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a view of exactly the elements that the operator reads or writes; of packed ones, of their bytes.

        Of packed elements whose strides say no byte apart, it is a view of every byte from the first to the last.
        """
        assert self.desc is not None
        sizes, strides = tuple(self.desc.sizes), self.desc.element_strides
        if not self.is_packed(array):
            return as_strided(array, sizes, [stride * array.itemsize for stride in strides])
        axes = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
        runs = [size for size, stride in axes if stride == 1]
        if len(runs) > 1 or any(stride % 2 for _, stride in axes if stride != 1):
            return array.reshape(-1)[: packed_length(self.span)]
        bytewise = [(size, stride // 2) for size, stride in axes if stride != 1]
        bytewise += [(packed_length(size), 1) for size in runs]
        return as_strided(array, [size for size, _ in bytewise], [stride for _, stride in bytewise])

    def packed_copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the packed elements, gaps included, of an array that holds one in each byte."""
        return packed(as_strided(array.view(np.uint8), (self.span,), (1,)))

    def flat_copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the elements, gaps included, of an array that fits, as they lie in memory; those of 4 bits packed."""
        assert self.desc is not None
        is_packed = self.is_packed(array)
        if is_four_bits(self.desc.data_type) and not is_packed:
            return self.packed_copy(array)
        length = packed_length(self.span) if is_packed else self.span
        # reshape takes a fraction of the time of as_strided.
        flat = array.reshape(-1) if array.flags.c_contiguous else as_strided(array, (length,), (array.itemsize,))
        elements: np.ndarray[Any, Any] = flat[:length].copy()
        return elements

    def unpack_into(self, array: np.ndarray[Any, Any], pairs: np.ndarray[Any, Any]) -> None:
        """Write packed elements to an array that holds one in each byte, and nothing into its gaps."""
        assert self.desc is not None
        elements = as_strided(unpacked(pairs, self.span), tuple(self.desc.sizes), self.desc.element_strides)
        as_strided(array.view(np.uint8), tuple(self.desc.sizes), self.desc.element_strides)[...] = elements

    def expectation(self) -> str:
        """Say which arrays fit."""
        assert self.desc is not None
        shape, strides = tuple(self.desc.sizes), self.desc.strides
        layout = "packed" if strides is None else f"strides {tuple(strides)} in elements"
        elements, name = self.span, self.desc.data_type.name.lower()
        if is_four_bits(self.desc.data_type):
            return (
                f"the bytes of packed {name} elements, uint8, contiguous 1-D with at least {packed_length(elements)}, "
                f"or ml_dtypes.{name} of shape {shape}, {layout}, or contiguous 1-D with at least {elements}"
            )
        return f"{name} of shape {shape}, {layout}, or contiguous 1-D with at least {counted(elements, 'element')}"

    def cast_told(self, array: np.ndarray[Any, Any]) -> str:
        """Say how an input of wider numbers of a kind becomes one that fits; "" of anything else, such as codes.

        So do objects, and numbers in the other byte order.
        """
        assert self.desc is not None
        if self.output or is_four_bits(self.desc.data_type):
            return ""
        wanted, given = dtype_of(self.desc.data_type), array.dtype
        are_of_a_kind = (given.kind == "f") == (wanted.kind == "f") and given.kind in "iuf"
        if not (are_of_a_kind and given.itemsize > wanted.itemsize) and not _is_other_form(given, wanted):
            return ""
        return f"; nothing is cast: {_asarray(self.desc)}"


def _is_other_form(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether elements may be those of a type in another form: objects, or in the other byte order."""
    return given.kind == "O" or (not given.isnative and given.newbyteorder("=") == wanted)


def _asarray(desc: TensorDesc | None) -> str:
    """Return the call that makes an array of a tensor's type, in words."""
    if desc is None or is_four_bits(desc.data_type):
        return "np.asarray"
    return f"np.asarray(x, np.{dtype_of(desc.data_type).name})"


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return what ``np.asarray`` makes of a value; of one that has DLPack's protocol alone, a view by that."""
    kind = type(value)
    if hasattr(kind, "__dlpack__") and not hasattr(kind, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def has_masked_elements(value: Any) -> bool:
    """Return whether a value is one of numpy's masked arrays, and says of some elements that they do not count."""
    if type(value) is np.ndarray:
        return False
    ma = sys.modules.get("numpy.ma")  # who has a masked array has imported it, and nobody else is made to
    # isinstance would ask the value for its class, which a foreign object may answer by any exception.
    return ma is not None and issubclass(type(value), ma.MaskedArray) and bool(ma.is_masked(value))


class BindingResolver:
    """Turns the bindings of one call into numpy arrays that fit their tensors, or says what is wrong."""

    def __init__(self, operator_name: str, tensors: tuple[TensorBinding, ...]) -> None:
        self._operator_name = operator_name
        self._tensors = tensors
        self._keywords = frozenset(place_of(tensor.name)[0] for tensor in tensors)

    def __call__(
        self, bindings: Mapping[str, Any], owned: bool, initialized: bool
    ) -> tuple[tuple[np.ndarray[Any, Any] | None, ...], Callable[[], None] | None]:
        """Return one array a tensor, None for those that this call does not bind and for outputs left out.

        Arrays that hold one 4-bit element in each byte are replaced by packed ones. Where an output is among them,
        there is also a function to be called when these are written, which unpacks them.

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
        for name in bindings:
            if name not in self._keywords:
                known = self._keywords_of_call(owned)
                expected = f"one of {', '.join(known)}" if known else "no bindings at all"
                raise self._error(name, "a binding, though no tensor has this name", expected)
        arrays = tuple(self._resolve(tensor, self._value(tensor, bindings), owned) for tensor in self._tensors)
        self._check_overlaps(arrays)
        return self._packed(arrays)

    def _keywords_of_call(self, owned: bool) -> list[str]:
        """Return what ``initialize`` binds, or ``dispatch``."""
        bound = (tensor for tensor in self._tensors if tensor.desc is not None and tensor.owned == owned)
        return list(dict.fromkeys(place_of(tensor.name)[0] for tensor in bound))

    def by_entry(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return arrays by the names of tensors, where a sequence may be given for an array of them.

        Raises:
            BindingError: A sequence has not an entry for each of them, or one of them is given besides.
        """
        result = dict(arrays)
        for tensor in self._tensors:
            name, entry = place_of(tensor.name)
            if entry is None or tensor.desc is None or arrays.get(name) is None:
                continue
            if arrays.get(tensor.name) is not None:
                raise self._error(tensor.name, f"an array, and one in {name}", "one of them")
            result[tensor.name] = self._value(tensor, arrays, has_calls=False)
            result.pop(name, None)
        return result

    def inputs(self, arrays: Mapping[str, Any]) -> list[np.ndarray[Any, Any] | None]:
        """Return one array an input, owned or not; None for those without a desc.

        Args:
            arrays: By the names of tensors, entries of arrays of them too. None is as good as nothing.

        Raises:
            BindingError: A name is unknown, missing or an output's, or a value fits no tensor.
        """
        inputs = [tensor for tensor in self._tensors if not tensor.output]
        for name, value in arrays.items():
            if value is not None and all(tensor.name != name for tensor in inputs):
                known = ", ".join(tensor.name for tensor in inputs if tensor.desc is not None)
                is_output = any(tensor.name == name for tensor in self._tensors)
                reason = "this is an output" if is_output else "no input has this name"
                raise self._error(str(name), f"an array, though {reason}", f"one of {known}")
        return [self._resolve(tensor, arrays.get(tensor.name), tensor.owned) for tensor in inputs]

    def _value(self, tensor: TensorBinding, bindings: Mapping[str, Any], has_calls: bool = True) -> Any:
        """Return what was given for a tensor; of one in an array of tensors, its entry of the sequence.

        Args:
            tensor: One of the operator's.
            bindings: What was given.
            has_calls: Whether another call binds the others.
        """
        name, entry = place_of(tensor.name)
        value = bindings.get(name)
        if entry is None or value is None:
            return value
        length = sum(place_of(other.name)[0] == name and other.desc is not None for other in self._tensors)
        if not isinstance(value, tuple | list) or len(value) != length:
            got = f"an object of type {type(value).__name__}"
            if isinstance(value, tuple | list):
                got = counted(len(value), "entry", "entries")
            others = ", with None in the places that the other call binds" if has_calls else ""
            raise self._error(name, got, f"a tuple or list of {length}{others}")
        return value[entry] if entry < length else None

    def _packed(
        self, arrays: tuple[np.ndarray[Any, Any] | None, ...]
    ) -> tuple[tuple[np.ndarray[Any, Any] | None, ...], Callable[[], None] | None]:
        """Replace arrays that hold one 4-bit element in each byte; all have been checked."""
        result = list(arrays)
        outputs = []
        for index, (tensor, array) in enumerate(zip(self._tensors, arrays, strict=True)):
            if array is None or tensor.desc is None or not is_four_bits(tensor.desc.data_type):
                continue
            if tensor.is_packed(array):
                continue
            if tensor.output:
                pairs = np.zeros(packed_length(tensor.span), np.uint8)
                outputs.append(partial(tensor.unpack_into, array, pairs))
                result[index] = pairs
            else:
                result[index] = tensor.packed_copy(array)
        return tuple(result), partial(_call_all, outputs) if outputs else None

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
        if has_masked_elements(value):
            raise self._error(tensor.name, "an array with masked elements", WITHOUT_MASK)
        array = self._view(tensor, value)
        self._check(tensor, array)
        return array

    def _view(self, tensor: TensorBinding, value: Any) -> np.ndarray[Any, Any]:
        try:
            return _view_of(value, is_written=tensor.output)
        except MemoryError:
            raise
        except Exception as error:  # a foreign object may raise anything
            got = f"an object of type {type(value).__name__}"
            told = "; nothing is converted"
            if type(value) in _NUMBERS:
                told += f", but {_asarray(tensor.desc)} makes an array of numbers"
            else:
                got += f" ({message_of(error)})"
            raise self._error(tensor.name, got, tensor.expectation() + told) from error

    def _check(self, tensor: TensorBinding, array: np.ndarray[Any, Any]) -> None:
        assert tensor.desc is not None
        fits = tensor.has_type(array) and tensor.fits(array)
        if fits and array.flags.aligned and (not tensor.output or array.flags.writeable):
            return
        got = f"{array.dtype} of shape {array.shape}"
        if not tensor.has_type(array):
            raise self._error(tensor.name, got, tensor.expectation() + tensor.cast_told(array))
        if not array.flags.aligned:
            raise self._error(
                tensor.name,
                f"{got} at an address that is no multiple of {array.dtype.alignment}",
                "elements aligned to their size",
            )
        if not fits:
            got += f" and strides {array.strides} in bytes"
            told = ""
            if array.shape == tensor.desc.sizes and not tensor.output:
                told = "; TensorDesc.from_array describes an array as it lies"
                if tensor.desc.strides is None:
                    told = f"; np.ascontiguousarray packs it, {told[2:]}"
            raise self._error(tensor.name, got, tensor.expectation() + told)
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


def _call_all(functions: list[partial[None]]) -> None:
    for function in functions:
        function()


def _view_of(value: Any, *, is_written: bool) -> np.ndarray[Any, Any]:
    """Return the numpy array behind any kind of array, without a copy; raise anything if it is none."""
    if issubclass(type(value), np.ndarray):
        return np.asarray(value)  # of a subclass the array itself: its own shape and strides may be anything
    if isinstance(value, np.generic):
        array = np.asarray(value)
        array.flags.writeable = False  # a scalar cannot change: what is written to this copy of it would be lost
        return array
    if hasattr(value, "__dlpack__"):
        return view_to_write(value) if is_written else np.from_dlpack(value)
    return np.asarray(memoryview(value))
