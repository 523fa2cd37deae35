"""Tensor descs (``DML_BUFFER_TENSOR_DESC``), the size of a tensor's buffer, and numpy's name for each data type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from importlib import import_module
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dmlcpu.coercion import coerce_integer, coerce_member, coerce_sequence
from dmlcpu.enums import TensorDataType, TensorFlags
from dmlcpu.shown_values import repr_of, shown

__all__ = [
    "ELEMENT_BITS",
    "TensorDesc",
    "calc_buffer_tensor_size",
    "data_type_of",
    "dtype_of",
    "has_data_type",
    "is_four_bits",
    "placeholder_dtype_of",
    "row_major_strides",
    "smallest_buffer_size",
    "span_in_bytes",
    "span_in_elements",
]

ELEMENT_BITS: Final = MappingProxyType(
    {
        TensorDataType.FLOAT32: 32,
        TensorDataType.FLOAT16: 16,
        TensorDataType.UINT32: 32,
        TensorDataType.UINT16: 16,
        TensorDataType.UINT8: 8,
        TensorDataType.INT32: 32,
        TensorDataType.INT16: 16,
        TensorDataType.INT8: 8,
        TensorDataType.FLOAT64: 64,
        TensorDataType.UINT64: 64,
        TensorDataType.INT64: 64,
        TensorDataType.UINT4: 4,
        TensorDataType.INT4: 4,
    }
)
"""The width of one element in bits, of every data type but UNKNOWN."""

# numpy's names are the enumeration's in lower case. The 4-bit ones come from ml_dtypes, if it is installed.
_DATA_TYPES: Final = MappingProxyType({data_type.name.lower(): data_type for data_type in ELEMENT_BITS})
_DTYPES: Final = MappingProxyType(
    {known: np.dtype(known.name.lower()) for known, bits in ELEMENT_BITS.items() if bits >= 8}
)
# Those of elements that nobody reads, so that shapes can be worked out without ml_dtypes. A structured array of the
# user's must not be taken for one of them, so their field has a name that no other has.
_FOUR_BIT_PLACEHOLDERS: Final = MappingProxyType(
    {known: np.dtype([(f"dmlcpu.{known.name.lower()}", np.uint8)]) for known, bits in ELEMENT_BITS.items() if bits == 4}
)


def row_major_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the distance of neighbours on each axis of a packed tensor, in elements.

    >>> row_major_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * sizes[axis]
    return tuple(strides)


def span_in_elements(sizes: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """Return how many elements lie from the first of a tensor to its last, both and every gap between included.

    Args:
        sizes: The length of each axis, none negative.
        strides: The distance of neighbours on each axis in elements, none negative; None for packed row-major.

    >>> span_in_elements((2, 3)), span_in_elements((2, 3), (8, 1)), span_in_elements((2, 3), (0, 1))
    (6, 11, 3)
    """
    if strides is None or 0 in sizes:
        elements = 1
        for size in sizes:
            elements *= size
        return elements
    last = 0
    for size, stride in zip(sizes, strides, strict=True):
        last += (size - 1) * stride
    return 1 + last


def span_in_bytes(desc: TensorDesc) -> int:
    """Return the bytes from the first element of a tensor to its last, half of the last one perhaps another's.

    >>> span_in_bytes(TensorDesc(TensorDataType.UINT4, (5,))), span_in_bytes(TensorDesc(TensorDataType.INT32, (5,)))
    (3, 20)
    """
    return (span_in_elements(desc.sizes, desc.strides) * ELEMENT_BITS[desc.data_type] + 7) // 8


def _integers(name: str, values: Sequence[int]) -> list[int]:
    try:
        return [index(value) for value in values]
    except TypeError:
        raise TypeError(f"{name}: got {shown(coerce_sequence(values))}, expected a sequence of integers") from None


def calc_buffer_tensor_size(
    data_type: TensorDataType | int, sizes: Sequence[int], strides: Sequence[int] | None = None
) -> int:
    """Return the bytes that a tensor's buffer needs at least, as ``DMLCalcBufferTensorSize`` does.

    The elements from the first to the last, gaps included, rounded up to a multiple of four bytes; 4-bit elements
    are packed two to a byte. The result is exact however large it is. It is 0 for UNKNOWN and for unknown types.

    Args:
        data_type: The type of an element.
        sizes: The length of each axis.
        strides: The distance of neighbours on each axis in elements; None for packed row-major.

    Raises:
        TypeError: The data type, a size or a stride is not an integer.
        ValueError: A size or stride is negative, or there are not as many strides as sizes.

    >>> calc_buffer_tensor_size(TensorDataType.UINT8, (1, 3, 5, 7))
    108
    >>> calc_buffer_tensor_size(TensorDataType.UINT4, (5,))
    4
    >>> calc_buffer_tensor_size(TensorDataType.FLOAT32, (1, 8, 28, 28), (8, 1, 0, 0))
    32
    """
    member = coerce_member(TensorDataType, data_type)
    if not isinstance(member, int):
        raise TypeError(f"data_type: got {shown(member)}, expected a TensorDataType")
    lengths = _integers("sizes", sizes)
    distances = None if strides is None else _integers("strides", strides)
    if distances is not None and len(distances) != len(lengths):
        raise ValueError(f"strides: got {len(distances)}, expected {len(lengths)}, as many as sizes")
    if min((*lengths, *(distances or ())), default=0) < 0:
        raise ValueError("sizes and strides must not be negative")
    return smallest_buffer_size(member, lengths, distances)


def smallest_buffer_size(data_type: TensorDataType, sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return what ``calc_buffer_tensor_size`` does, of sizes and strides that have been checked.

    >>> smallest_buffer_size(TensorDataType.UINT4, (5,), None)
    4
    """
    return (span_in_elements(sizes, strides) * ELEMENT_BITS.get(data_type, 0) + 31) // 32 * 4


@lru_cache  # numpy puts names together anew
def _known_data_type(dtype: np.dtype[Any]) -> TensorDataType | None:
    if dtype.names is not None:
        return next((known for known, own in _FOUR_BIT_PLACEHOLDERS.items() if own == dtype), None)
    return _DATA_TYPES.get(dtype.name) if dtype.isnative else None


def data_type_of(dtype: np.dtype[Any]) -> TensorDataType:
    """Return the data type of a numpy dtype in the machine's byte order.

    Raises:
        TypeError: No data type has this form.

    >>> data_type_of(np.dtype("int8"))
    <TensorDataType.INT8: 8>
    """
    data_type = _known_data_type(dtype)
    if data_type is None:
        order = "" if dtype.isnative else ", in the machine's byte order"
        raise TypeError(f"no tensor data type is {dtype}; expected one of {', '.join(_DATA_TYPES)}{order}")
    return data_type


def has_data_type(dtype: np.dtype[Any], data_type: TensorDataType) -> bool:
    """Return whether elements of a numpy dtype are those of a data type, in the machine's byte order.

    >>> has_data_type(np.dtype("int8"), TensorDataType.INT8), has_data_type(np.dtype("uint8"), TensorDataType.UINT4)
    (True, False)
    """
    return _known_data_type(dtype) is data_type


def is_four_bits(data_type: TensorDataType) -> bool:
    """Return whether two elements share a byte.

    >>> is_four_bits(TensorDataType.UINT4), is_four_bits(TensorDataType.UINT8)
    (True, False)
    """
    return ELEMENT_BITS.get(data_type) == 4


def dtype_of(data_type: TensorDataType) -> np.dtype[Any]:
    """Return the numpy dtype of a data type; those of UINT4 and INT4 are ml_dtypes', one element to a byte.

    Raises:
        TypeError: The type is unknown, or has 4 bits and ml_dtypes is not installed.

    >>> dtype_of(TensorDataType.FLOAT16)
    dtype('float16')
    """
    if (known := _DTYPES.get(data_type)) is not None:
        return known
    if not is_four_bits(data_type):
        raise TypeError(f"no numpy dtype is {data_type!r}")
    name = TensorDataType(data_type).name.lower()
    try:
        ml_dtypes = import_module("ml_dtypes")
    except ImportError:
        raise TypeError(f"arrays of {name} need the package ml_dtypes; packed in pairs they are uint8") from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def placeholder_dtype_of(data_type: TensorDataType) -> np.dtype[Any]:
    """Return a numpy dtype that ``data_type_of`` knows as a data type, for elements that nobody reads.

    Those of UINT4 and INT4 have one element to a byte and need no other package.

    >>> data_type_of(placeholder_dtype_of(TensorDataType.INT4))
    <TensorDataType.INT4: 13>
    """
    return _FOUR_BIT_PLACEHOLDERS.get(data_type) or dtype_of(data_type)


# How the constructor of a desc brings each argument to its canonical form.
_COERCIONS: Final[tuple[tuple[str, Callable[[Any], Any]], ...]] = (
    ("data_type", partial(coerce_member, TensorDataType)),
    ("sizes", coerce_sequence),
    ("strides", coerce_sequence),
    ("flags", partial(coerce_member, TensorFlags)),
    ("total_tensor_size_in_bytes", coerce_integer),
    ("guaranteed_base_offset_alignment", coerce_integer),
)


@dataclass(frozen=True, slots=True, repr=False)
class TensorDesc:
    """The type and the layout of one tensor (``DML_BUFFER_TENSOR_DESC``).

    The constructor takes any sequences and numbers and checks nothing: an operator's desc is checked as a whole, by
    ``Device.create_operator``. What it accepts of a tensor at any operator: 1 to 8 sizes of at least 1 and fewer
    than 2**32 elements; as many strides or none, any on an input, but on an output no two elements may share an
    address; a buffer of at least ``calc_buffer_tensor_size`` and of fewer than 2**32 elements.

    Attributes:
        data_type: The type of an element.
        sizes: The length of each axis.
        strides: The distance of neighbours on each axis in elements, 0 to repeat one element along it; None for
            packed row-major.
        flags: OWNED_BY_DML for an input that is bound once, at ``initialize``.
        total_tensor_size_in_bytes: The size of the buffer; None for ``calc_buffer_tensor_size``.
        guaranteed_base_offset_alignment: 0, or a power of two of at least 16, in bytes.

    >>> TensorDesc(TensorDataType.UINT8, [1, 64, 56, 56])
    TensorDesc(TensorDataType.UINT8, (1, 64, 56, 56))
    >>> TensorDesc(8, (2, 3), strides=(4, 1), flags=1)
    TensorDesc(TensorDataType.INT8, (2, 3), strides=(4, 1), flags=TensorFlags.OWNED_BY_DML)
    """

    data_type: TensorDataType
    sizes: Sequence[int]
    _: KW_ONLY
    strides: Sequence[int] | None = None
    flags: TensorFlags = TensorFlags.NONE
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0

    if TYPE_CHECKING:  # what is passed may have wider types than what is read

        def __init__(
            self,
            data_type: TensorDataType | int,
            sizes: Sequence[int],
            *,
            strides: Sequence[int] | None = None,
            flags: TensorFlags | int = TensorFlags.NONE,
            total_tensor_size_in_bytes: int | None = None,
            guaranteed_base_offset_alignment: int = 0,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Bring every value to its canonical form, so that equal descs compare and hash equal."""
        for name, coerce in _COERCIONS:
            given = getattr(self, name)
            value = coerce(given)
            if value is not given:
                object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Show the arguments that differ from their defaults."""
        arguments = [repr_of(self.data_type), repr_of(self.sizes)]
        if self.strides is not None:
            arguments.append(f"strides={repr_of(self.strides)}")
        if self.flags is not TensorFlags.NONE:
            arguments.append(f"flags={repr_of(self.flags)}")
        if self.total_tensor_size_in_bytes is not None:
            arguments.append(f"total_tensor_size_in_bytes={repr_of(self.total_tensor_size_in_bytes)}")
        alignment = self.guaranteed_base_offset_alignment
        if type(alignment) is not int or alignment != 0:
            arguments.append(f"guaranteed_base_offset_alignment={repr_of(alignment)}")
        return f"TensorDesc({', '.join(arguments)})"

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The distance of neighbours on each axis in elements, of packed tensors too.

        >>> TensorDesc(TensorDataType.UINT8, (2, 3, 4)).element_strides
        (12, 4, 1)
        """
        return row_major_strides(self.sizes) if self.strides is None else tuple(self.strides)

    @classmethod
    def from_array(cls, a: Any, flags: TensorFlags | int = TensorFlags.NONE) -> TensorDesc:
        """Return the desc of an array as it lies in memory; a 0-d array is one element of one axis.

        Args:
            a: An array or numpy scalar of a numeric dtype in native byte order, or of ml_dtypes' int4 or uint4,
                whose strides are not negative and are whole elements, or what numpy reads by DLPack as such an array.
                A packed row-major array has ``strides=None``.
            flags: The flags of the desc.

        Raises:
            TypeError: ``a`` is no array, or no data type has its dtype.
            ValueError: Its strides are negative or fractions of an element.

        >>> TensorDesc.from_array(np.zeros((1, 8, 8, 3), np.int8).transpose(0, 3, 1, 2))
        TensorDesc(TensorDataType.INT8, (1, 3, 8, 8), strides=(192, 1, 24, 3))
        """
        if not isinstance(a, np.ndarray | np.generic):
            if not hasattr(a, "__dlpack__"):
                raise TypeError(f"expected an array, of numpy or with DLPack, got an object of type {type(a).__name__}")
            a = np.from_dlpack(a)
        data_type = data_type_of(a.dtype)
        strides = None
        if not a.flags.c_contiguous:
            whole = [stride >= 0 and stride % a.itemsize == 0 for stride in a.strides]
            if not all(exact or size == 1 for exact, size in zip(whole, a.shape, strict=True)):
                is_backwards = any(stride < 0 and size > 1 for stride, size in zip(a.strides, a.shape, strict=True))
                what = "negative ones" if is_backwards else f"fractions of an element of {a.itemsize} bytes"
                told = f"{what} cannot be described; np.ascontiguousarray(a) packs it"
                raise ValueError(f"a: got strides of {a.strides} bytes; {told}")
            # The stride of an axis of length 1 is never applied; numpy may hold anything there.
            strides = [s // a.itemsize if exact else 0 for s, exact in zip(a.strides, whole, strict=True)]
        return cls(data_type, a.shape or (1,), strides=strides, flags=flags)
