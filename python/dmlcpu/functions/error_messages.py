"""What operators refuse, told in the words of the function that was called."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from dmlcpu.errors import BindingError, InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.feature_levels.quantization import SCALE, ZERO_POINT
from dmlcpu.functions.arguments import argument_of
from dmlcpu.functions.layout import Layout

__all__ = ["told_by_arguments"]

_Refusal: TypeAlias = BindingError | InvalidDescError | UnsupportedFeatureLevelError

_FIELD = re.compile(rf"{re.escape(SCALE)}|{re.escape(ZERO_POINT)}|\b\w+_tensor\b")
# What numpy makes of Python's numbers, and no operator but one takes.
_DEFAULT_TYPE = re.compile(r"got data type (?:FLOAT64|INT64), expected (\w+)")


def told_by_arguments(
    error: _Refusal, function: str, arrays: Mapping[str, Any], attributes: Mapping[str, Any]
) -> _Refusal:
    """Return a refusal whose message names arguments; operator and field stand in brackets behind, as in ``field``.

    Args:
        error: Of the operator: its message begins with the operator's name.
        function: The function's name.
        arrays: What the operator was given, by field.
        attributes: The same of attributes.
    """
    operator, _, message = str(error).partition(": ")
    has_out = not isinstance(arrays.get("output_tensor"), Layout)

    def argument(match: re.Match[str]) -> str:
        return "output" if match[0] == "output_tensor" and not has_out else argument_of(match[0])

    told = re.sub(r"\bsizes\b", "shape", _FIELD.sub(argument, message)).replace("a TensorDesc", "an array or a number")
    told += _hint(error.field or "", told, arrays, attributes)
    at_fault = f"{operator}: {error.field}" if error.field else operator
    result = copy.copy(error)
    result.args = (f"{function}: {told} ({at_fault})",)
    return result


def _hint(field: str, message: str, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Return what may have been meant."""
    name = message.partition(":")[0]
    if (match := _DEFAULT_TYPE.search(message)) is not None:
        return f"; nothing is cast: np.asarray({name}, np.{match[1].lower()}) is of this type"
    if field in ("filter_tensor", "group_count") and _has_channels_last(arrays, attributes.get("group_count")):
        axes = "N, C, H, W" if arrays["input_tensor"].ndim == 4 else "N, C, W"
        order = (0, arrays["input_tensor"].ndim - 1, *range(1, arrays["input_tensor"].ndim - 1))
        return f"; the axes of the input are {axes}: if its channels come last, pass input.transpose{order}"
    return ""


def _has_channels_last(arrays: Mapping[str, Any], groups: Any) -> bool:
    """Return whether the input of a convolution would fit its filter if its last axis were its second one."""
    input, filter = arrays.get("input_tensor"), arrays.get("filter_tensor")
    if input is None or filter is None or type(groups) is not int or input.ndim != filter.ndim or input.ndim < 3:
        return False
    channels = filter.shape[1] * groups
    return bool(input.shape[1] != channels and input.shape[-1] == channels)
