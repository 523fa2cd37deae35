"""Memory of other libraries' arrays, by DLPack, for outputs: whether it can be written is theirs to tell."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["view_to_write"]


class _Exporter:
    """Passes on what an array exports, and remembers in which form.

    Attributes:
        is_versioned: Whether what was exported last is of DLPack 1.0 or later, which tells of memory that it is
            read-only.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.is_versioned = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._exporter.__dlpack__(**options)
        self.is_versioned = "dltensor_versioned" in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._exporter.__dlpack_device__()


class _WritableMemory:
    """The memory of a read-only array, which it keeps, as numpy's array interface describes it: to be written."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        interface = array.__array_interface__
        self._array = array
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def view_to_write(exporter: Any) -> np.ndarray[Any, Any]:
    """Return a view of an array that has DLPack's protocol; one that can be written unless its owner says otherwise.

    Before version 1.0 DLPack has no word for read-only memory, and numpy views all of it read-only.

    Raises:
        Exception: Whatever the exporter raises, and numpy of memory that it cannot view.

    >>> class Exporter:
    ...     memory = np.zeros(3, np.uint8)
    ...     def __dlpack__(self, stream=None):
    ...         return self.memory.__dlpack__()
    ...     def __dlpack_device__(self):
    ...         return self.memory.__dlpack_device__()
    >>> np.from_dlpack(Exporter()).flags.writeable, view_to_write(Exporter()).flags.writeable
    (False, True)
    """
    remembering = _Exporter(exporter)
    array = np.from_dlpack(remembering)
    if array.flags.writeable or remembering.is_versioned or _is_read_only_buffer(exporter):
        return array
    return np.asarray(_WritableMemory(array))


def _is_read_only_buffer(exporter: Any) -> bool:
    """Return whether a value has the buffer protocol, too, and says by it that its memory is read-only."""
    try:
        return memoryview(exporter).readonly
    except TypeError:
        return False
