"""Arguments in the shapes that descs want, most of them views."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dmlcpu.coercion import coerce_integer
from dmlcpu.functions.arguments import Arguments
from dmlcpu.functions.layout import Array, Layout, broadcast, common_length, new_array, on_axis, on_channel_axis
from dmlcpu.shown_values import counted, shown

__all__ = ["ShapedArguments"]


@dataclass(frozen=True, slots=True)
class ShapedArguments(Arguments):
    """The arguments of one call of a function, and what its operator takes in their place."""

    def axis(self, value: Any, rank: int) -> int:
        """Return the axis of 1-D parameters as an integer.

        Raises:
            BindingError: An array of so many axes has no such axis. 1, the default, is none of a 1-D array's, but there
                a 1-D parameter has one place only.
        """
        axis = coerce_integer(value)
        if type(axis) is int and (-rank <= axis < rank or (axis == 1 and rank < 2)):
            return axis
        expected = f"an integer from {-rank} to {rank - 1}" if rank else "1: the input has no axes"
        raise self.error("axis", shown(axis), expected)

    def along_axis(
        self, name: str, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...], axis: int
    ) -> Array | None:
        """Return a scale or zero point of an element-wise operator as a view of the input's shape, 0 strides and all.

        The axis is one of ``axis``.

        Raises:
            BindingError: Its shape neither broadcasts nor is 1-D along ``axis``.
        """
        array = self.typed(name, value, dtype)
        if array is None:
            return None
        if array.size == 1:
            array = array.reshape(())
        elif array.ndim == 1 and len(shape) > 1:
            if array.size != shape[axis]:
                expected = f"one, or one for each along axis {axis} of shape {shape}"
                raise self.error(name, counted(array.size, "element"), expected)
            array = array.reshape([-1 if dimension == axis % len(shape) else 1 for dimension in range(len(shape))])
        try:
            return broadcast(array, shape)
        except ValueError:
            raise self.error(name, f"shape {array.shape}", f"one that broadcasts to the input's {shape}") from None

    def single(self, name: str, value: Any, dtype: np.dtype[Any], rank: int) -> Array | None:
        """Return a parameter of one element with ``rank`` axes.

        Raises:
            BindingError: It has several elements.
        """
        array = self.typed(name, value, dtype)
        if array is None:
            return None
        if array.size != 1:
            raise self.error(name, f"{array.size} elements", "one")
        return array.reshape((1,) * rank)

    def single_output(self, name: str, array: Any, dtype: np.dtype[Any], rank: int) -> Array | Layout:
        """Return an output of one element as a view with ``rank`` axes, or the layout of a new one.

        Raises:
            BindingError: It is no array, or has several elements.
        """
        if array is None:
            return new_array((1,) * rank, dtype, range(rank))
        if not isinstance(array, np.ndarray) or array.size != 1:
            got = (
                f"shape {array.shape}" if isinstance(array, np.ndarray) else f"an object of type {type(array).__name__}"
            )
            raise self.error(name, got, "a numpy array of one element, or None")
        return array.reshape((1,) * rank)

    def by_channel(
        self, channels: int, rank: int, *, axes: Collection[int] = (0, 1), **parameters: tuple[Any, np.dtype[Any]]
    ) -> list[Array | None]:
        """Return parameters of channels as {1, channels, 1, ...}; as {1, 1, 1, ...} if none has several elements.

        Args:
            channels: The channels that they are for.
            rank: The axes of the result.
            axes: The axes that an array of several axes may lie along: 1 as in the output, 0 as in a filter.
            parameters: By name, a value and the type that a Python number takes.

        Raises:
            BindingError: One has neither one element nor one for each channel.
        """
        arrays = {name: self.typed(name, value, dtype) for name, (value, dtype) in parameters.items()}
        lines = {
            name: None if array is None else self._channel_line(name, array, channels, rank, axes)
            for name, array in arrays.items()
        }
        extent = common_length(lines.values())
        # A single value beside parameters of channels repeats: stride 0.
        return [
            None if line is None else on_channel_axis(np.broadcast_to(line, (extent,)), rank) for line in lines.values()
        ]

    def by_line(
        self, line: Literal["row", "column"], count: int, rank: int, **parameters: tuple[Any, np.dtype[Any]]
    ) -> list[Array | None]:
        """Return parameters of a matrix as {1, .., count, 1} or {1, .., count}; as ones if none has several elements.

        Args:
            line: What they have an element for.
            count: How many of them the matrix has.
            rank: The axes of the result.
            parameters: By name, a value and the type that a Python number takes.

        Raises:
            BindingError: One has neither one element nor one for each row or column.
        """
        arrays = {name: self.typed(name, value, dtype) for name, (value, dtype) in parameters.items()}
        tail = (count, 1) if line == "row" else (count,)
        for name, array in arrays.items():
            if array is None or array.size == 1 or array.shape == (count,):
                continue
            if array.size != count or array.shape[-len(tail) :] != tail:
                expected = f"one element, or one for each {line}: {_either((count,), tail)}"
                raise self.error(name, f"shape {array.shape}", expected)
        lines = [None if array is None else array.reshape(-1) for array in arrays.values()]
        extent = common_length(lines)
        shape = (1,) * (rank - len(tail)) + ((extent, 1) if line == "row" else (extent,))
        # A single value beside several repeats: stride 0.
        return [None if values is None else on_axis(values, shape, rank - len(tail)) for values in lines]

    def broadcast(self, name: str, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array | None:
        """Return a tensor as a view of a shape, by strides of 0.

        Raises:
            BindingError: Its shape does not broadcast to it.
        """
        array = self.typed(name, value, dtype)
        if array is None:
            return None
        try:
            return np.broadcast_to(array, shape)
        except ValueError:
            raise self.error(name, f"shape {array.shape}", f"one that broadcasts to the output's {shape}") from None

    def bias(self, value: Any, channels: int, rank: int) -> Array | None:
        """Return a bias as {1, channels, 1, ...}.

        Raises:
            BindingError: It has not one element for each channel.
        """
        array = self.typed("bias", value, np.dtype(np.int32))
        if array is None:
            return None
        return on_channel_axis(self._channel_line("bias", array, channels, rank, (0, 1), may_repeat=False), rank)

    def _channel_line(
        self, name: str, array: Array, channels: int, rank: int, axes: Collection[int], may_repeat: bool = True
    ) -> Array:
        shapes = [tuple(channels if axis == place else 1 for axis in range(rank)) for place in axes]
        # Several axes broadcast as in numpy: the last ones are meant.
        shape = (1,) * (rank - array.ndim) + array.shape
        is_enough = array.size == 1 and (may_repeat or channels == 1)
        if not is_enough and array.shape != (channels,) and shape not in shapes:
            got = "one element" if array.size == 1 else f"shape {array.shape}"
            expected = f"one for each channel: {_either((channels,), shapes[-1])}"
            raise self.error(name, got, f"one element, or {expected}" if may_repeat else expected)
        return array.reshape(-1)


def _either(*shapes: tuple[int, ...]) -> str:
    return " or ".join(dict.fromkeys(map(str, shapes)))
