"""Arrays that stand for tensors of a graph, so that numpy works out shapes and strides."""

from __future__ import annotations

from collections.abc import Iterable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, mmap
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlcpu.tensor import TensorDesc, placeholder_dtype_of, span_in_elements

__all__ = [
    "BASES_OF_VIEWS",
    "is_copy_of_placeholder",
    "new_placeholder",
    "offset_in_placeholder",
    "owner_of",
    "row_major_runs",
]

_Array = np.ndarray[Any, Any]

_NO_ELEMENTS: Final = "a placeholder has no elements to read, only views"

# numpy's functions by name, some of which only later versions have.
_NEW_ARRAYS: Final = frozenset({"empty_like", "full_like", "ones_like", "zeros_like"})
_VIEWS_AND_LAYOUTS: Final = frozenset(
    {
        *("array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "can_cast"),
        *("diagonal", "dsplit", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "matrix_transpose"),
        *("may_share_memory", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "result_type", "rollaxis"),
        *("rot90", "shape", "shares_memory", "size", "sliding_window_view", "split", "squeeze", "swapaxes"),
        *("transpose", "unstack", "vsplit"),
    }
)


class Placeholder(np.ndarray[Any, Any]):
    """A view of memory that nobody writes to. Its own views and copies are placeholders, too.

    Some of numpy's functions return plain arrays nevertheless, which are known by their base alone.
    """

    def __repr__(self) -> str:
        """Return the type of the elements and the shape."""
        names = self.dtype.names
        return f"<placeholder of {names[0] if names else self.dtype.name} of shape {self.shape}>"

    def __str__(self) -> str:
        """Return what ``repr`` does."""
        return repr(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Raise TypeError."""
        raise TypeError(f"numpy.{ufunc.__name__}: a placeholder has no elements to compute with, only views")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return what one of numpy's functions does that reads no elements.

        Raises:
            TypeError: It may read or copy them.
        """
        name = func.__name__
        if name in _NEW_ARRAYS:
            kwargs = {"subok": False, **kwargs}
        elif name not in _VIEWS_AND_LAYOUTS:
            raise TypeError(f"numpy.{name}: a placeholder has no elements to read or copy, only views")
        return super().__array_function__(func, types, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        """Return a view or a copy.

        Raises:
            TypeError: It would be a number.
        """
        entry = super().__getitem__(key)
        if not isinstance(entry, np.ndarray):
            raise TypeError(_NO_ELEMENTS)
        return entry

    def item(self, *args: Any) -> Any:
        """Raise TypeError."""
        raise TypeError(_NO_ELEMENTS)

    def tolist(self) -> Any:
        """Raise TypeError."""
        raise TypeError(_NO_ELEMENTS)


_LEAST_MAPPED: Final = 1 << 16


class _Memory:
    """The memory behind a placeholder; the base of every view of it."""

    def __init__(self, owner: object, desc: TensorDesc) -> None:
        dtype = placeholder_dtype_of(desc.data_type)
        self.owner = owner
        size = span_in_elements(desc.sizes, desc.strides) * dtype.itemsize
        # Pages take microseconds to map and to unmap, small memory does not.
        buffer = np.zeros(size, np.uint8) if size < _LEAST_MAPPED else _pages(size)
        self._memory = np.frombuffer(buffer, dtype)
        self._memory.setflags(write=False)
        strides = tuple(stride * dtype.itemsize for stride in desc.element_strides)
        self.__array_interface__ = {**self._memory.__array_interface__, "shape": tuple(desc.sizes), "strides": strides}


def _pages(size: int) -> mmap:
    """Return pages that can only be read: they are zeros, and take up no memory however many there are."""
    try:
        return mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS, PROT_READ)
    except OSError as error:
        raise MemoryError(f"no place for the {size} bytes of a placeholder: {error}") from error


# What numpy puts between a view of any strides and the array that it is of.
_StridedBase: Final[type[Any]] = type(as_strided(np.empty(1), (1,), (0,)).base)
_VIEWS: Final[tuple[type[Any], ...]] = (np.ndarray, _StridedBase)

BASES_OF_VIEWS: Final[tuple[type[Any], ...]] = (_Memory, _StridedBase)
"""The types of what ends the chain of bases of a placeholder's view, if arrays alone are followed."""


def new_placeholder(owner: object, desc: TensorDesc) -> Placeholder:
    """Return an array that lies in memory as a desc says, of no content; of 4-bit elements, one to a byte."""
    return np.asarray(_Memory(owner, desc)).view(Placeholder)


def owner_of(array: object) -> Any:
    """Return the owner of the placeholder that an array is a view of; None of other arrays and objects.

    >>> from dmlcpu.enums import TensorDataType
    >>> placeholder = new_placeholder("owner", TensorDesc(TensorDataType.UINT8, (2, 3)))
    >>> owner_of(placeholder[1:].T), owner_of(placeholder.copy())
    ('owner', None)
    """
    memory = _memory_of(array)
    return None if memory is None else memory.owner


def is_copy_of_placeholder(array: object) -> bool:
    """Return whether an array is a copy of a placeholder or a view of a copy, which stands for nothing.

    >>> from dmlcpu.enums import TensorDataType
    >>> placeholder = new_placeholder("owner", TensorDesc(TensorDataType.UINT8, (2, 3)))
    >>> is_copy_of_placeholder(placeholder[1:].T), is_copy_of_placeholder(placeholder.copy().T)
    (False, True)
    """
    return isinstance(array, Placeholder) and _memory_of(array) is None


def offset_in_placeholder(array: _Array) -> int:
    """Return the bytes from the first element of a placeholder to that of a view of it.

    >>> from dmlcpu.enums import TensorDataType
    >>> offset_in_placeholder(new_placeholder("owner", TensorDesc(TensorDataType.FLOAT32, (2, 3)))[1:])
    12
    """
    memory = _memory_of(array)
    assert memory is not None
    offset: int = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return offset


def _memory_of(array: object) -> _Memory | None:
    while isinstance(array, _VIEWS):
        array = array.base
    return array if isinstance(array, _Memory) else None


def row_major_runs(sizes: Iterable[int], strides: Iterable[int]) -> list[tuple[int, int]]:
    """Return the sizes and strides of the fewest axes that lead through memory as others do in row-major order.

    >>> row_major_runs((2, 1, 3, 4), (12, 0, 4, 1)), row_major_runs((2, 3), (1, 2))
    ([(24, 1)], [(2, 1), (3, 2)])
    """
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs
