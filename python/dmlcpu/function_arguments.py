"""What the arguments of the functions become: arrays that can be bound, and descs that say how they lie in memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlcpu import _core
from dmlcpu.coercion import coerce_integer, coerce_sequence
from dmlcpu.descs import OperatorDesc
from dmlcpu.device import CompiledOperator, Device, default_device
from dmlcpu.enums import TensorDataType
from dmlcpu.errors import BindingError, InvalidDescError
from dmlcpu.tensor import TensorDesc, data_type_of, dtype_of

__all__ = [
    "Array",
    "Layout",
    "axis_parameter",
    "channel_parameters",
    "new_array",
    "new_like",
    "one_element_output",
    "output_dtype_of",
    "per_axis",
    "run",
    "single_parameter",
    "to_array",
]

Array = np.ndarray[Any, Any]


class Layout(NamedTuple):
    """How an array lies in memory; in place of an array, an output that is allocated once its operator is accepted."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def new_array(shape: Sequence[int], dtype: np.dtype[Any], order: Sequence[int]) -> Layout:
    """Return the layout of a packed array whose axes nest in this order, the last one innermost."""
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return Layout(dtype, tuple(shape), tuple(strides))


def new_like(array: Array, dtype: np.dtype[Any]) -> Layout:
    """Return the layout of a packed array of the shape and the memory order of another."""
    return new_array(array.shape, dtype, sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def to_array(name: str, value: Any) -> Array:
    """Return an array whose strides a desc can hold: whole elements, forwards. Others are copied; nothing is cast.

    Raises:
        BindingError: The value is no array, or its elements are of no tensor data type.
    """
    try:
        array = np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # a foreign object may raise anything
        raise BindingError(f"{name}: an object of type {type(value).__name__} is no array ({error})", name) from error
    _data_type(name, array.dtype)
    whole = array.flags.aligned and all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
    return array if whole else array.copy()


def _data_type(name: str, dtype: np.dtype[Any]) -> TensorDataType:
    try:
        return data_type_of(dtype)
    except TypeError as error:
        raise BindingError(f"{name}: {error}", name) from None


def output_dtype_of(given: TensorDataType | None, typed: Mapping[str, Any], otherwise: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of an output: as given, else of the first array among arguments by name, else another.

    Raises:
        BindingError: The first array is ``out`` and has another type than was given, or an array has no data type.
        InvalidDescError: What was given is no data type.
    """
    arrays = {name: value for name, value in typed.items() if isinstance(value, np.ndarray | np.generic)}
    for name, array in arrays.items():
        _data_type(name, array.dtype)
    if given is None:
        return next((array.dtype for array in arrays.values()), otherwise)
    try:
        dtype = dtype_of(given)
    except TypeError as error:
        raise InvalidDescError(f"output_data_type: {error}", field="output_tensor") from None
    if "out" in arrays and arrays["out"].dtype != dtype:
        raise BindingError(f"out: got a {arrays['out'].dtype} array; expected {dtype}, the output_data_type", "out")
    return dtype


def _typed(name: str, value: Any, dtype: np.dtype[Any]) -> Array | None:
    """Return a parameter as an array; a Python number takes the type that the operator wants there."""
    if value is None:
        return None
    if isinstance(value, np.generic) or not isinstance(value, bool | int | float):
        return to_array(name, value)
    if dtype.kind in "iu" and not (isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max):
        raise BindingError(f"{name}: got {_shown(value)}; expected an integer that {dtype} holds", name)
    try:
        with np.errstate(over="ignore"):
            array: Array = _core.call_in_default_float_environment(np.asarray, value, dtype)
    except (OverflowError, TypeError, ValueError):
        raise BindingError(f"{name}: got {_shown(value)}; expected a number that {dtype} holds", name) from None
    return array


def _shown(number: int | float) -> str:
    """Describe a number; a long one by its size, since Python refuses to print thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 64:
        return f"an integer of {number.bit_length()} bits"
    return repr(number)


def axis_parameter(name: str, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...], axis: int) -> Array | None:
    """Return a scale or zero point of an element-wise operator as a view of the input's shape, 0 strides and all.

    Raises:
        BindingError: Its shape neither broadcasts nor is 1-D along ``axis``.
    """
    array = _typed(name, value, dtype)
    if array is None:
        return None
    if array.size == 1:
        array = array.reshape(())
    elif array.ndim == 1 and len(shape) > 1:
        axis = coerce_integer(axis)
        if type(axis) is not int or not -len(shape) <= axis < len(shape) or array.size != shape[axis]:
            expected = f"one element or one for each along axis {axis} of shape {shape}"
            raise BindingError(f"{name}: got {array.size} elements; expected {expected}", name)
        array = array.reshape([-1 if dimension == axis % len(shape) else 1 for dimension in range(len(shape))])
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise BindingError(f"{name}: shape {array.shape} does not broadcast to the input's {shape}", name) from None


def single_parameter(name: str, value: Any, dtype: np.dtype[Any], rank: int) -> Array | None:
    """Return a parameter of one element with ``rank`` axes.

    Raises:
        BindingError: It has several elements.
    """
    array = _typed(name, value, dtype)
    if array is None:
        return None
    if array.size != 1:
        raise BindingError(f"{name}: got {array.size} elements; expected 1", name)
    return array.reshape((1,) * rank)


def one_element_output(name: str, array: Array | None, dtype: np.dtype[Any], rank: int) -> Array | Layout:
    """Return an output of one element as a view with ``rank`` axes, or the layout of a new one.

    Raises:
        BindingError: It is no array, or has several elements.
    """
    if array is None:
        return new_array((1,) * rank, dtype, range(rank))
    if not isinstance(array, np.ndarray) or array.size != 1:
        got = f"{array.size} elements" if isinstance(array, np.ndarray) else f"an object of type {type(array).__name__}"
        raise BindingError(f"{name}: got {got}; expected a numpy array of one element", name)
    return array.reshape((1,) * rank)


def channel_parameters(
    parameters: Mapping[str, tuple[Any, np.dtype[Any]]], channels: int, rank: int
) -> list[Array | None]:
    """Return parameters of output channels as {1, channels, 1, ...}; as {1, 1, 1, ...} if none has several elements.

    Args:
        parameters: By name, a value and the type that a Python number takes.
        channels: The output channels.
        rank: The axes of the result.

    Raises:
        BindingError: One has neither one element nor one for each channel.
    """
    arrays = {name: _typed(name, value, dtype) for name, (value, dtype) in parameters.items()}
    for name, array in arrays.items():
        if array is not None and array.size not in (1, channels):
            expected = f"1 or {channels}, one for each output channel"
            raise BindingError(f"{name}: got {array.size} elements; expected {expected}", name)
    extent = max((array.size for array in arrays.values() if array is not None), default=1)
    # A single value beside parameters of channels repeats: stride 0.
    lines = (None if array is None else np.broadcast_to(array.reshape(-1), (extent,)) for array in arrays.values())
    return [None if line is None else _on_channel_axis(line, rank) for line in lines]


def _on_channel_axis(line: Array, rank: int) -> Array:
    shape = (1, line.size) + (1,) * max(rank - 2, 0)
    return as_strided(line, shape, (0, line.strides[0]) + (0,) * max(rank - 2, 0), writeable=False)


def per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return an attribute of each spatial axis as a tuple; what is neither a number nor a sequence stays what it is."""
    entries: tuple[int, ...] = coerce_sequence(coerce_integer(value))
    return (entries,) * axes if isinstance(entries, int) else entries


def run(
    desc_type: type[OperatorDesc],
    device: Device | None,
    arrays: Mapping[str, Array | Layout | None],
    **attributes: Any,
) -> Any:
    """Dispatch an operator on arrays, one for each tensor of its desc, outputs too; None where a tensor is absent.

    The operator is created and compiled once for arrays of these types and layouts, and found again afterwards.

    Returns:
        The output, or a named tuple of several. A new one that should have no axes has one of length 1.

    Raises:
        BindingError: An array is none, or lies in memory as no desc can say.
    """
    layouts = tuple((name, None if array is None else _layout(name, array)) for name, array in arrays.items())
    device = device or default_device()
    values = tuple((name, coerce_integer(value)) for name, value in attributes.items())
    # Only integers may be looked up: 1.0, which the checks refuse, equals 1, which they may have accepted.
    if all(_is_plain(value) for _, value in values):
        compiled = _compiled(device, cast(Hashable, desc_type), layouts, values)
    else:
        compiled = _compile(device, desc_type, layouts, values)
    return compiled.dispatch(**{name: None if isinstance(array, Layout) else array for name, array in arrays.items()})


def _is_plain(value: Any) -> bool:
    return all(type(entry) is int for entry in (value if type(value) is tuple else (value,)))


def _layout(name: str, array: Array | Layout) -> Layout:
    if isinstance(array, Layout):
        return array
    if not isinstance(array, np.ndarray):
        raise BindingError(f"{name}: got an object of type {type(array).__name__}; expected a numpy array", name)
    return Layout(array.dtype, array.shape, array.strides)


def _compile(
    device: Device,
    desc_type: type[OperatorDesc],
    layouts: tuple[tuple[str, Layout | None], ...],
    attributes: tuple[tuple[str, Any], ...],
) -> CompiledOperator:
    tensors = {name: None if layout is None else _desc(name, *layout) for name, layout in layouts}
    return device.compile_operator(device.create_operator(desc_type(**tensors, **dict(attributes))))


_compiled = lru_cache(maxsize=1024)(_compile)


def _desc(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorDesc:
    """Return the desc of an array as it lies in memory; a 0-d one counts as one of a single element."""
    data_type = _data_type(name, dtype)
    if any(stride < 0 or stride % dtype.itemsize for size, stride in zip(shape, strides, strict=True) if size > 1):
        expected = f"strides that are whole elements of {dtype.itemsize}, forwards"
        raise BindingError(f"{name}: got strides {strides} in bytes; expected {expected}", name)
    # The stride of an axis of length 1 is never applied; numpy may hold anything there.
    steps = [0 if size <= 1 else stride // dtype.itemsize for size, stride in zip(shape, strides, strict=True)]
    return TensorDesc(data_type, shape or (1,), strides=steps or (1,))
