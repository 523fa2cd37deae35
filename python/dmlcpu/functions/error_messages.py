"""What operators refuse, told in the words of the function that was called."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from dmlcpu.enums import OperatorType
from dmlcpu.errors import BindingError, InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from dmlcpu.functions.argument_names import argument_of, output_names
from dmlcpu.functions.layout import Layout

__all__ = ["told_by_arguments"]

_Refusal: TypeAlias = BindingError | InvalidDescError | UnsupportedFeatureLevelError

_FIELD = re.compile(rf"{re.escape(SCALE)}|{re.escape(ZERO_POINT)}|\b\w+_tensor\b")
# What a desc takes for an attribute of spatial axes; a function takes one number, too.
_SEQUENCE = re.compile(r"\ba sequence (?:of unsigned 32-bit integers|with an integer for each spatial axis)")
# What numpy makes of Python's numbers, and no operator but one takes.
_DEFAULT_TYPE = re.compile(r"got data type (FLOAT64|INT64), expected (\w+(?: or \w+)*)")
_OPERANDS = ("input_tensor", "filter_tensor", "a_tensor", "b_tensor")


def told_by_arguments(
    error: _Refusal,
    function: str,
    operator_type: OperatorType,
    arrays: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> _Refusal:
    """Return a refusal whose message names arguments; operator and field stand in brackets behind, as in ``field``.

    Args:
        error: Of the operator: its message begins with the operator's name.
        function: The function's name.
        operator_type: The operator.
        arrays: What the operator was given, by field.
        attributes: The same of attributes.
    """
    operator, _, message = str(error).partition(": ")

    def argument(match: re.Match[str]) -> str:
        field = match[0]
        is_new = isinstance(arrays.get(field), Layout)  # an output for which no array was passed
        return field.removesuffix("_tensor") if is_new else argument_of(field, operator_type)

    told = re.sub(r"\bsizes\b", "shape", _FIELD.sub(argument, message)).replace("a TensorDesc", "an array or a number")
    told = _SEQUENCE.sub("an unsigned 32-bit integer for all spatial axes, or a sequence with one for each", told)
    if isinstance(error, BindingError) or error.field not in output_names(operator_type):
        told += _hint(error.field or "", told, arrays, attributes)
    at_fault = f"{operator}: {error.field}" if error.field else operator
    result = copy.copy(error)
    result.args = (f"{function}: {told} ({at_fault})",)
    return result


def _hint(field: str, message: str, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Return what may have been meant."""
    name = message.partition(":")[0]
    if (match := _DEFAULT_TYPE.search(message)) is not None:
        return _hint_of_type(field, name, match[1], match[2].split(" or "), arrays)
    if "dimension count" in message and _lacks_batch(arrays):
        axes = "N, C, H, W" if arrays["filter_tensor"].ndim == 4 else "N, C, W"
        return f"; the axes of the input are {axes}: input[np.newaxis] adds the batch"
    if field in ("filter_tensor", "group_count") and _has_channels_last(arrays, attributes.get("group_count")):
        axes = "N, C, H, W" if arrays["input_tensor"].ndim == 4 else "N, C, W"
        order = (0, arrays["input_tensor"].ndim - 1, *range(1, arrays["input_tensor"].ndim - 1))
        return f"; the axes of the input are {axes}: if its channels come last, pass input.transpose{order}"
    if field == "filter_tensor" and (groups := _missing_groups(arrays, attributes.get("group_count"))):
        return f"; group_count={groups} is a convolution by filters of as many channels"
    return ""


def _hint_of_type(field: str, name: str, got: str, expected: list[str], arrays: Mapping[str, Any]) -> str:
    """Return how an array that numpy chose the type of becomes one that is taken, with the same values."""
    if got == "FLOAT64" and "FLOAT32" not in expected:
        return ""
    if field not in _OPERANDS:
        partner = _partner(field, arrays)
        wanted = "" if partner is None else f", here {partner}"
        return f"; nothing is cast, but numbers take the type that is wanted{wanted}: np.asarray({name}).tolist()"
    if got == "INT64":
        types = [f"np.{known.lower()}" for known in reversed(expected) if not known.endswith("INT4")]
        return f"; nothing is cast: make it {' or '.join(types)}, whichever holds the values"
    return f"; nothing is cast: np.asarray({name}, np.float32) is of this type"


def _partner(field: str, arrays: Mapping[str, Any]) -> np.dtype[Any] | None:
    """Return the type of the codes that a zero point is of; None of what is no zero point."""
    if field not in ("zero_point_tensor", ZERO_POINT):
        partner = arrays.get(field.replace("zero_point_tensor", "tensor")) if "zero_point" in field else None
        return None if partner is None else partner.dtype
    types = [arrays[name].dtype for name in ("output_tensor", "input_tensor")]
    return next((dtype for dtype in types if dtype.kind in "iu"), None)


def _lacks_batch(arrays: Mapping[str, Any]) -> bool:
    """Return whether the input of a convolution has one axis less than its filter."""
    input, filter = arrays.get("input_tensor"), arrays.get("filter_tensor")
    return input is not None and filter is not None and filter.ndim in (3, 4) and filter.ndim == input.ndim + 1


def _has_channels_last(arrays: Mapping[str, Any], groups: Any) -> bool:
    """Return whether the input of a convolution would fit its filter if its last axis were its second one."""
    input, filter = arrays.get("input_tensor"), arrays.get("filter_tensor")
    if input is None or filter is None or type(groups) is not int or input.ndim != filter.ndim or input.ndim < 3:
        return False
    channels = filter.shape[1] * groups
    return bool(input.shape[1] != channels and input.shape[-1] == channels)


def _missing_groups(arrays: Mapping[str, Any], groups: Any) -> int:
    """Return in how many groups a filter would fit its input, where it does not in one; 0 if in none."""
    input, filter = arrays.get("input_tensor"), arrays.get("filter_tensor")
    if input is None or filter is None or groups != 1 or input.ndim != filter.ndim or input.ndim < 3:
        return 0
    count, rest = divmod(input.shape[1], max(1, filter.shape[1]))
    return count if count > 1 and not rest and not filter.shape[0] % count else 0
