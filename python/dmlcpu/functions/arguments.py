"""What the arguments of the functions become: arrays in the shapes that descs want."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dmlcpu import _core
from dmlcpu.bindings import as_array
from dmlcpu.coercion import coerce_integer, coerce_member
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType, TensorDataType
from dmlcpu.errors import BindingError, InvalidDescError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.argument_names import tensors_by_argument
from dmlcpu.functions.layout import (
    Array,
    Layout,
    broadcast,
    can_be_described,
    common_length,
    new_array,
    on_axis,
    on_channel_axis,
)
from dmlcpu.functions.plain_numbers import are_numbers, is_number, number_not_held, numbers_in
from dmlcpu.graph.builder import Expression, expression_of
from dmlcpu.graph.placeholders import is_copy_of_placeholder
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL
from dmlcpu.shown_values import counted, shown
from dmlcpu.tensor import data_type_of, dtype_of, has_data_type, is_four_bits

__all__ = ["Arguments", "Operand", "Parameter", "Result", "code_type"]

Result = TypeVar("Result", Array, Expression)
"""What a function returns: an expression if one of its operands and parameters is one, else an array.

To type checkers an argument that may be either counts as an expression, so that it is to be narrowed first, and what a
function makes of ``Any`` is ``Any``. Only mypy is tested.
"""

Operand: TypeAlias = ArrayLike | Result
"""An array, or an expression of a graph."""

Parameter: TypeAlias = ArrayLike | Result | None
"""A Python number or a list or tuple of them (but for zero points of 4 bits), which take the type that is wanted, any
array, or an expression; absent where the operator allows it."""


def code_type(array: Array) -> np.dtype[Any]:
    """Return the type of quantized results where nothing else says it: the array's if it has 8 bits, else UINT8."""
    return array.dtype if array.dtype in (np.int8, np.uint8) else np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call of a function: what it makes of them, and how it names them in errors.

    Messages name arguments. The field of an error is the desc's, as if the operator had refused the tensor itself; of
    an argument that is no tensor, such as an axis, it is the argument's name.

    Attributes:
        function: Its name.
        desc_type: The desc of its operator.
    """

    function: str
    desc_type: type[OperatorDesc]

    def error(self, name: str, got: str, expected: str) -> BindingError:
        """Return the exception for an argument that does not do."""
        field = tensors_by_argument(self.desc_type.operator_type).get(name)
        message = f"{self.function}: {name}: got {got}, expected {expected}"
        return BindingError(message, name if field is None else field.name)

    def array(self, name: str, value: Any) -> Array:
        """Return an array whose strides a desc can hold: whole elements, forwards. Others are copied; nothing is cast.

        Raises:
            InvalidDescError: There is none.
            BindingError: The value is no array, or its elements are of no tensor data type.
        """
        if isinstance(value, Expression):
            return value.placeholder()
        if value is None:
            field = tensors_by_argument(self.desc_type.operator_type)[name].name
            message = f"{self.function}: {name}: got None, expected an array of {self._dtypes(name)}"
            raise InvalidDescError(message, self.desc_type.operator_type, field)
        try:
            array = as_array(value)
        except MemoryError:
            raise
        except Exception as error:  # a foreign object may raise anything
            got = f"an object of type {type(value).__name__} ({error})"
            raise self.error(name, got, "an array") from error
        if is_copy_of_placeholder(value):
            raise self.error(name, "a copy of a placeholder", "a view of it, or the expression")
        if array.flags.aligned and can_be_described(array.dtype, array.strides):
            return array
        self.data_type(name, array.dtype)
        if expression_of(array) is not None:
            raise self.error(name, f"a placeholder's view of strides {array.strides}", "strides that are not negative")
        copy: Array = array.copy(order="K")
        return copy

    def data_type(self, name: str, dtype: np.dtype[Any]) -> TensorDataType:
        """Return the data type of an array's elements.

        Raises:
            BindingError: No data type has such elements.
        """
        try:
            return data_type_of(dtype)
        except TypeError:
            order = "" if dtype.isnative else ", in the machine's byte order"
            raise self.error(name, f"elements of {dtype!r}", f"{self._dtypes(name)}{order}") from None

    def _dtypes(self, name: str) -> str:
        """Return the numpy types that the operator takes in an argument, in words."""
        field = tensors_by_argument(self.desc_type.operator_type)[name]
        return " or ".join(known.name.lower() for known in field.support_at(HIGHEST_FEATURE_LEVEL).data_types)

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
            parameter: The name and value of a parameter that has it; Python numbers say nothing.
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
                    expected = f"{data_type.name.lower()}, the output_data_type"
                    raise self.error(name, f"an array of {out.dtype}", expected)
            return data_type
        for name, data_type in types.items():
            if data_type not in allowed:
                expected = " or ".join(sorted(known.name.lower() for known in allowed))
                raise self.error(name, f"an array of {arrays[name].dtype}", expected)
            return data_type
        if parameter is not None and parameter[1] is not None and not are_numbers(parameter[1]):
            data_type = self.data_type(parameter[0], self.array(*parameter).dtype)
            if data_type in allowed:  # else the parameter is what is wrong
                return data_type
        return otherwise

    def _given_type(self, given: Any, allowed: tuple[TensorDataType, ...]) -> TensorDataType:
        data_type = coerce_member(TensorDataType, given)
        if isinstance(data_type, TensorDataType) and data_type in allowed:
            return data_type
        expected = " or ".join(f"TensorDataType.{known.name}" for known in allowed)
        if not isinstance(data_type, int):
            expected += ", no name and no type of numpy's"
        message = f"{self.function}: output_data_type: got {shown(data_type)}, expected {expected}"
        raise InvalidDescError(message, self.desc_type.operator_type, "output_tensor")

    def typed(self, name: str, value: Any, dtype: np.dtype[Any]) -> Array | None:
        """Return a parameter as an array; Python numbers take the type that the operator wants there.

        Raises:
            BindingError: It is no array, or a number that does not fit.
        """
        if value is None:
            return None
        if are_numbers(value):
            return self._typed_numbers(name, value, dtype)
        array = self.array(name, value)
        if isinstance(value, np.generic) and value.dtype != dtype:
            number = "float" if dtype.kind == "f" else "int"
            expected = f"{dtype.name}; {number}({name}) takes the type that is wanted"
            raise self.error(name, f"a number of type {value.dtype}", expected)
        return array

    def _typed_numbers(self, name: str, value: Any, dtype: np.dtype[Any]) -> Array:
        """Return a number, or a list of numbers, as an array of a type that holds each of them."""
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            for number in numbers_in(value):
                if not (isinstance(number, int) and limits.min <= number <= limits.max):
                    raise self.error(name, shown(number), f"an integer that {dtype} holds")
        try:
            with np.errstate(over="ignore"):
                typed: Array = _core.call_in_default_float_environment(np.asarray, value, dtype)
        except (OverflowError, TypeError, ValueError) as error:
            if is_number(value):
                raise self.error(name, shown(value), f"a number that {dtype} holds") from None
            raise self.error(name, f"{shown(value)} ({error})", f"numbers that {dtype} holds") from None
        if dtype.kind == "f":
            number = _core.call_in_default_float_environment(number_not_held, value, typed)
            if number is not None:
                raise self.error(name, shown(number), f"a number that {dtype} holds, 0 or an infinity")
        return typed

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


@lru_cache
def _output_types(operator_type: OperatorType) -> tuple[TensorDataType, ...]:
    """Return the types that an operator's output may have at the highest level."""
    fields = {field.name: field for field in OPERATORS[operator_type].tensors}
    return tuple(sorted(fields["output_tensor"].support_at(HIGHEST_FEATURE_LEVEL).data_types))
