"""What the arguments of the functions are: arrays of data types that operators have, and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dmlcpu import _core
from dmlcpu.bindings import WITHOUT_MASK, as_array, has_masked_elements
from dmlcpu.coercion import coerce_member
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import OperatorType, TensorDataType
from dmlcpu.errors import BindingError, InvalidDescError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.argument_names import tensors_by_argument
from dmlcpu.functions.layout import Array, can_be_described
from dmlcpu.functions.plain_numbers import are_numbers, is_number, number_not_held, numbers_in
from dmlcpu.graph.builder import Expression, expression_of
from dmlcpu.graph.placeholders import is_copy_of_placeholder
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL
from dmlcpu.shown_values import message_of, shown
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
    """The arguments of one call of a function: which arrays they are, and how it names them in errors.

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
        if has_masked_elements(value):
            raise self.error(name, "an array with masked elements", WITHOUT_MASK)
        try:
            array = as_array(value)
        except MemoryError:
            raise
        except Exception as error:  # a foreign object may raise anything
            got = f"an object of type {type(value).__name__} ({message_of(error)})"
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
            hint = self._hint(name, dtype)
            raise self.error(name, f"elements of {dtype!r}", f"{self._dtypes(name)}{order}{hint}") from None

    def _hint(self, name: str, dtype: np.dtype[Any]) -> str:
        """Return how objects, and numbers in the other byte order, become what an argument may be; "" of others."""
        if name.startswith("out"):  # it is written
            return ""
        field = tensors_by_argument(self.desc_type.operator_type)[name]
        types = field.support_at(HIGHEST_FEATURE_LEVEL).data_types
        known = [dtype_of(data_type) for data_type in types if not is_four_bits(data_type)]
        wanted = np.dtype(np.float32) if dtype.kind == "O" else dtype.newbyteorder("=")
        return f"; nothing is cast: np.asarray({name}, np.{wanted.name})" if wanted in known else ""

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


@lru_cache
def _output_types(operator_type: OperatorType) -> tuple[TensorDataType, ...]:
    """Return the types that an operator's output may have at the highest level."""
    fields = {field.name: field for field in OPERATORS[operator_type].tensors}
    return tuple(sorted(fields["output_tensor"].support_at(HIGHEST_FEATURE_LEVEL).data_types))
