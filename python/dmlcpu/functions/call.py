"""What the arguments of the functions become: arrays that can be bound, and descs that say how they lie in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike

from dmlcpu import _core
from dmlcpu.coercion import coerce_integer, coerce_member, coerce_sequence
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import CompiledOperator, Device, default_device
from dmlcpu.enums import OperatorType, TensorDataType, TensorFlags
from dmlcpu.errors import BindingError, DmlError, InvalidDescError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.layout import Array, Layout, PackedArray, new_array
from dmlcpu.graph.builder import Expression, GraphBuilder, expression_of
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL, place_of
from dmlcpu.tensor import TensorDesc, data_type_of, dtype_of, has_data_type, is_four_bits

__all__ = ["FLOAT32", "INT32", "FunctionCall", "Operand", "Parameter", "code_type", "is_number", "per_axis"]

FLOAT32: Final = np.dtype(np.float32)
INT32: Final = np.dtype(np.int32)

Operand: TypeAlias = ArrayLike | Expression
"""An array, or an expression of a graph."""

Parameter: TypeAlias = ArrayLike | Expression | None
"""A number, any array or sequence of numbers, or an expression; absent where the operator allows it."""


def code_type(array: Array) -> np.dtype[Any]:
    """Return the type of quantized results where nothing else says it: the array's if it has 8 bits, else UINT8."""
    return array.dtype if array.dtype in (np.int8, np.uint8) else np.dtype(np.uint8)


def per_axis(axes: int, **attributes: Any) -> dict[str, Any]:
    """Return attributes of spatial axes as tuples of one length; what is neither number nor sequence stays as it is."""
    entries = {name: coerce_sequence(coerce_integer(value)) for name, value in attributes.items()}
    length = max([axes, *(len(value) for value in entries.values() if isinstance(value, tuple))])
    return {name: (value,) * length if isinstance(value, int) else value for name, value in entries.items()}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function, for what it makes of its arguments and how it names them in errors.

    Attributes:
        function: Its name.
        desc_type: The desc of its operator.
        device: Where it runs; None for the default device.
    """

    function: str
    desc_type: type[OperatorDesc]
    device: Device | None

    def error(self, name: str, got: str, expected: str) -> BindingError:
        """Return the exception for an argument that does not do."""
        return BindingError(f"{self.function}: {name}: got {got}, expected {expected}", name)

    def array(self, name: str, value: Any) -> Array:
        """Return an array whose strides a desc can hold: whole elements, forwards. Others are copied; nothing is cast.

        Raises:
            BindingError: The value is no array, or its elements are of no tensor data type.
        """
        if isinstance(value, Expression):
            return value.placeholder()
        try:
            array = np.asarray(value)
        except MemoryError:
            raise
        except Exception as error:  # a foreign object may raise anything
            got = f"an object of type {type(value).__name__} ({error})"
            raise self.error(name, got, "an array") from error
        self.data_type(name, array.dtype)
        whole = array.flags.aligned and all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
        return array if whole else array.copy(order="K")

    def data_type(self, name: str, dtype: np.dtype[Any]) -> TensorDataType:
        """Return the data type of an array's elements.

        Raises:
            BindingError: There is none.
        """
        try:
            return data_type_of(dtype)
        except TypeError as error:
            raise BindingError(f"{self.function}: {name}: {error}", name) from None

    def output_dtype(
        self, given: Any, outs: Mapping[str, Any], parameter: tuple[str, Any] | None, otherwise: np.dtype[Any]
    ) -> np.dtype[Any]:
        """Return the numpy type of the operator's output, as ``output_data_type`` chooses it."""
        return dtype_of(self.output_data_type(given, outs, parameter, data_type_of(otherwise)))

    def output_data_type(
        self, given: Any, outs: Mapping[str, Any], parameter: tuple[str, Any] | None, otherwise: TensorDataType
    ) -> TensorDataType:
        """Return the type of the operator's output: as given, else an out's, else a parameter's, else another.

        Args:
            given: The ``output_data_type``, or None.
            outs: Arrays to write that have the output's type, by name, or None.
            parameter: The name and value of a parameter that has it; a Python number says nothing.
            otherwise: The type if none of them tells.

        Raises:
            BindingError: An array to write has another type than was given, or one that the operator does not have.
            InvalidDescError: What was given is no data type of the operator's output.
        """
        allowed = _output_types(self.desc_type.operator_type)
        arrays = {name: out for name, out in outs.items() if isinstance(out, np.ndarray | np.generic)}
        types = {name: self.data_type(name, out.dtype) for name, out in arrays.items()}
        if given is not None:
            data_type = self._given_type(given, allowed)
            for name, out in arrays.items():
                is_packed = is_four_bits(data_type) and out.dtype == np.uint8
                if not is_packed and not has_data_type(out.dtype, data_type):
                    raise self.error(name, f"a {out.dtype} array", f"{data_type.name.lower()}, the output_data_type")
            return data_type
        for name, data_type in types.items():
            if data_type not in allowed:
                expected = " or ".join(sorted(known.name.lower() for known in allowed))
                raise self.error(name, f"a {arrays[name].dtype} array", expected)
            return data_type
        if parameter is not None and parameter[1] is not None and not is_number(parameter[1]):
            data_type = self.data_type(parameter[0], self.array(*parameter).dtype)
            if data_type in allowed:  # else the parameter is what is wrong
                return data_type
        return otherwise

    def _given_type(self, given: Any, allowed: tuple[TensorDataType, ...]) -> TensorDataType:
        data_type = coerce_member(TensorDataType, given)
        if isinstance(data_type, TensorDataType) and data_type in allowed:
            return data_type
        got = data_type.name if isinstance(data_type, TensorDataType) else repr(given)
        expected = " or ".join(f"TensorDataType.{known.name}" for known in allowed)
        message = f"{self.function}: output_data_type: got {got}, expected {expected}"
        raise InvalidDescError(message, self.desc_type.operator_type, "output_tensor")

    def typed(self, name: str, value: Any, dtype: np.dtype[Any]) -> Array | None:
        """Return a parameter as an array; a Python number takes the type that the operator wants there.

        Raises:
            BindingError: It is no array, or a number that does not fit.
        """
        if value is None:
            return None
        if not is_number(value):
            array = self.array(name, value)
            if isinstance(value, np.generic) and value.dtype != dtype:
                number = "float" if dtype.kind == "f" else "int"
                expected = f"{dtype.name}; {number}({name}) takes the type that is wanted"
                raise self.error(name, f"a {value.dtype} number", expected)
            return array
        if dtype.kind in "iu" and not (isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max):
            raise self.error(name, _shown(value), f"an integer that {dtype} holds")
        try:
            with np.errstate(over="ignore"):
                typed: Array = _core.call_in_default_float_environment(np.asarray, value, dtype)
        except (OverflowError, TypeError, ValueError):
            raise self.error(name, _shown(value), f"a number that {dtype} holds") from None
        if dtype.kind == "f" and math.isfinite(value) and not np.isfinite(typed):
            raise self.error(name, _shown(value), f"a number that {dtype} holds, or an infinity")
        return typed

    def along_axis(
        self, name: str, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...], axis: int
    ) -> Array | None:
        """Return a scale or zero point of an element-wise operator as a view of the input's shape, 0 strides and all.

        Raises:
            BindingError: Its shape neither broadcasts nor is 1-D along ``axis``.
        """
        array = self.typed(name, value, dtype)
        if array is None:
            return None
        if array.size == 1:
            array = array.reshape(())
        elif array.ndim == 1 and len(shape) > 1:
            axis = coerce_integer(axis)
            if type(axis) is not int or not -len(shape) <= axis < len(shape) or array.size != shape[axis]:
                expected = f"one, or one for each along axis {axis} of shape {shape}"
                raise self.error(name, f"{array.size} elements", expected)
            array = array.reshape([-1 if dimension == axis % len(shape) else 1 for dimension in range(len(shape))])
        try:
            return np.broadcast_to(array, shape)
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
        extent = max((line.size for line in lines.values() if line is not None), default=1)
        # A single value beside parameters of channels repeats: stride 0.
        return [
            None if line is None else _on_channel_axis(np.broadcast_to(line, (extent,)), rank)
            for line in lines.values()
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
                expected = f"one element, or one for each {line}: {(count,)} or {tail}"
                raise self.error(name, f"shape {array.shape}", expected)
        lines = [None if array is None else array.reshape(-1) for array in arrays.values()]
        extent = max((values.size for values in lines if values is not None), default=1)
        shape = (1,) * (rank - len(tail)) + ((extent, 1) if line == "row" else (extent,))
        # A single value beside several repeats: stride 0.
        return [None if values is None else _on_axis(values, shape, rank - len(tail)) for values in lines]

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
        if array.size == 1 != channels:
            raise self.error("bias", "one element", f"{channels}, one for each output channel")
        return _on_channel_axis(self._channel_line("bias", array, channels, rank, (0, 1)), rank)

    def _channel_line(self, name: str, array: Array, channels: int, rank: int, axes: Collection[int]) -> Array:
        shapes = [tuple(channels if axis == place else 1 for axis in range(rank)) for place in axes]
        # Several axes broadcast as in numpy: the last ones are meant.
        shape = (1,) * (rank - array.ndim) + array.shape
        if array.size != 1 and array.shape != (channels,) and (array.ndim < 2 or shape not in shapes):
            expected = f"one element, or one for each channel: {(channels,)} or {shapes[-1]}"
            raise self.error(name, f"shape {array.shape}", expected)
        return array.reshape(-1)

    def run(self, arrays: Mapping[str, Any], **attributes: Any) -> Any:
        """Dispatch the operator on arrays, one for each tensor of its desc, outputs too; None where one is absent.

        The operator is created and compiled once for arrays of these types and layouts, and found again afterwards.
        Where an array is the placeholder of an expression, the operator becomes a node of its graph.

        Returns:
            The output, or a named tuple of several. A new one that should have no axes has one of length 1.

        Raises:
            BindingError: An array is none, or lies in memory as no desc can say.
            TypeError: The device is none.
        """
        if (expression := next(filter(None, map(expression_of, arrays.values())), None)) is not None:
            return self._record(expression.builder, arrays, attributes)
        layouts = tuple((name, None if array is None else self._layout(name, array)) for name, array in arrays.items())
        device = default_device() if self.device is None else self.device
        if not isinstance(device, Device):
            got = f"an object of type {type(device).__name__}"
            raise TypeError(f"{self.function}: device: got {got}, expected a dmlcpu.Device or None")
        values = tuple((name, coerce_integer(value)) for name, value in attributes.items())
        # Only integers may be looked up: 1.0, which the checks refuse, equals 1, which they may have accepted.
        compile_operator = _compiled if all(_is_plain(value) for _, value in values) else _compile
        compiled = compile_operator(device, self.desc_type, layouts, values)
        return compiled.dispatch(**_gathered((name, _binding(array)) for name, array in arrays.items()))

    def _record(self, builder: GraphBuilder, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """Add the operator to a graph; arrays that are no expression's become constants."""
        if self.device is not None and self.device != builder.device:
            raise self.error("device", repr(self.device), f"None, or the graph's {builder.device!r}")
        tensors: dict[str, TensorDesc | None] = {}
        for name, array in arrays.items():
            if array is None:
                tensors[name] = None
                continue
            layout = self._layout(name, array)
            if layout.packed is not None or is_four_bits(data_type_of(layout.dtype)):
                raise self.error(name, "4-bit elements", "others: graphs have no tensors of 4 bits")
            output = isinstance(array, Layout)
            if not output and name in _output_names(self.desc_type.operator_type):
                argument = "out" if name == "output_tensor" else name
                raise self.error(argument, "an array", "None: a graph's outputs are bound at dispatch")
            constant = not output and expression_of(array) is None
            flags = TensorFlags.OWNED_BY_DML if constant else TensorFlags.NONE
            tensors[name] = replace(_desc(*layout), flags=flags)
        values = {name: coerce_integer(value) for name, value in attributes.items()}
        try:
            outputs = builder.add_operator(self.desc_type(**_gathered(tensors.items()), **values), arrays)
        except ValueError as error:
            if isinstance(error, DmlError):
                raise
            raise BindingError(f"{self.function}: {error}") from None
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _layout(self, name: str, array: Any) -> Layout:
        if isinstance(array, Layout):
            return array
        if isinstance(array, PackedArray):
            return Layout(np.dtype(np.uint8), array.shape, array.strides, array.data_type)
        argument = "out" if name == "output_tensor" else name
        if not isinstance(array, np.ndarray):
            raise self.error(argument, f"an object of type {type(array).__name__}", "a numpy array")
        self.data_type(argument, array.dtype)
        # The stride of an axis of length 1 is never applied; numpy may hold anything there.
        steps = tuple(0 if size <= 1 else stride for size, stride in zip(array.shape, array.strides, strict=True))
        if any(stride < 0 or stride % array.itemsize for stride in steps):
            expected = f"multiples of {array.itemsize} that are not negative: outputs are never copied"
            raise self.error(argument, f"strides of {array.strides} bytes", expected)
        return Layout(array.dtype, array.shape, steps)


@lru_cache
def _output_names(operator_type: OperatorType) -> frozenset[str]:
    return frozenset(field.name for field in OPERATORS[operator_type].outputs)


def is_number(value: Any) -> bool:
    """Return whether a value is a Python number, which takes whatever type is wanted."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def _shown(number: int | float) -> str:
    """Describe a number; a long one by its size, since Python refuses to print thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 64:
        return f"an integer of {number.bit_length()} bits"
    return repr(number)


def _is_plain(value: Any) -> bool:
    return all(type(entry) is int for entry in (value if type(value) is tuple else (value,)))


def _on_axis(line: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return a view of a line of values as a shape of ones but for the axis; a single value repeats along it."""
    stride = 0 if line.size == 1 else line.strides[0]
    strides = tuple(stride if index == axis else 0 for index in range(len(shape)))
    return as_strided(line, shape, strides, writeable=False)


def _on_channel_axis(line: Array, rank: int) -> Array:
    shape = (1, line.size) + (1,) * max(rank - 2, 0)
    return as_strided(line, shape, (0, line.strides[0]) + (0,) * max(rank - 2, 0), writeable=False)


@lru_cache
def _output_types(operator_type: OperatorType) -> tuple[TensorDataType, ...]:
    """Return the types that an operator's output may have at the highest level."""
    fields = {field.name: field for field in OPERATORS[operator_type].tensors}
    return tuple(sorted(fields["output_tensor"].support_at(HIGHEST_FEATURE_LEVEL).data_types))


def _compile(
    device: Device,
    desc_type: Any,
    layouts: tuple[tuple[str, Layout | None], ...],
    attributes: tuple[tuple[str, Any], ...],
) -> CompiledOperator:
    tensors = _gathered((name, None if layout is None else _desc(*layout)) for name, layout in layouts)
    return device.compile_operator(device.create_operator(desc_type(**tensors, **dict(attributes))))


_compiled: Callable[..., CompiledOperator] = lru_cache(maxsize=1024)(_compile)


def _binding(array: Any) -> Any:
    if isinstance(array, PackedArray):
        return array.pairs
    return None if isinstance(array, Layout) else array


def _gathered(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by field with those of an array of tensors as one tuple, up to the last that is there."""
    values: dict[str, Any] = {}
    for name, value in fields:
        if "[" not in name:
            values[name] = value
            continue
        attribute, _ = place_of(name)
        entries = values.setdefault(attribute, ())
        if value is not None:
            values[attribute] = (*entries, value)
    return values


def _desc(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], four_bits: TensorDataType | None
) -> TensorDesc:
    """Return the desc of an array as it lies in memory; a 0-d one counts as one of a single element."""
    if four_bits is not None:
        return TensorDesc(four_bits, shape, strides=strides)
    packed = new_array(shape, dtype, range(len(shape))).strides
    if all(stride == step or size == 1 for size, stride, step in zip(shape, strides, packed, strict=True)):
        return TensorDesc(data_type_of(dtype), shape or (1,))
    return TensorDesc(data_type_of(dtype), shape, strides=[stride // dtype.itemsize for stride in strides])
