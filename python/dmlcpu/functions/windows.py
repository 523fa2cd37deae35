"""What the functions of sliding windows share: attributes of spatial axes, and the output that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dmlcpu.coercion import coerce_integer, coerce_sequence
from dmlcpu.enums import OperatorType
from dmlcpu.errors import InvalidDescError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.functions.arguments import Arguments
from dmlcpu.functions.layout import Array, Layout, memory_order, new_array
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL
from dmlcpu.shown_values import counted

__all__ = ["window_attributes", "windowed_output"]


def window_attributes(call: Arguments, rank: int, **attributes: Any) -> dict[str, Any]:
    """Return attributes of spatial axes as tuples with an entry for each.

    What is neither a sequence nor a number that an entry may be stays, for the checks to refuse as it came. Descs may
    have surplus entries, which DirectML ignores; here they are a mistake.

    Args:
        call: Whose attributes they are.
        rank: The axes of the input; the spatial ones are those after the first two.
        attributes: By name, a number or a sequence.

    Raises:
        InvalidDescError: A sequence has more or fewer entries. Not raised where the operator takes no input of this
            rank, which is then what is wrong.
    """
    entries = {name: coerce_sequence(coerce_integer(value)) for name, value in attributes.items()}
    axes = max(rank - 2, 1)
    if rank in _ranks(call.desc_type.operator_type):
        for name, value in entries.items():
            if isinstance(value, tuple) and len(value) != axes:
                raise _wrong_length(call, name, len(value), axes)
    return {name: (value,) * axes if _is_entry(value) else value for name, value in entries.items()}


@lru_cache
def _ranks(operator_type: OperatorType) -> range:
    """Return the ranks that an operator's input may have at the highest level."""
    fields = {field.name: field for field in OPERATORS[operator_type].tensors}
    support = fields["input_tensor"].support_at(HIGHEST_FEATURE_LEVEL)
    return range(support.lowest_rank, support.highest_rank + 1)


def _wrong_length(call: Arguments, name: str, given: int, axes: int) -> InvalidDescError:
    numbers = "1, for the input's spatial axis" if axes == 1 else f"{axes}, one for each spatial axis of the input"
    hint = ""
    if name.endswith("_padding") and given == 2 * axes:
        hint = "; ONNX's pads are those of start_padding and then those of end_padding"
    got = counted(given, "entry", "entries")
    message = f"{call.function}: {name}: got {got}, expected {numbers}, or one number for all{hint}"
    return InvalidDescError(message, call.desc_type.operator_type, name)


def windowed_output(
    input: Array, channels: int, window: Sequence[int], attributes: Mapping[str, Any], dtype: np.dtype[Any]
) -> Layout:
    """Return a new output in the input's memory order; of extent 1 where no size follows, for the checks to refuse.

    Args:
        input: The array that the window slides over.
        channels: The output's channels.
        window: The window's size along each spatial axis; an absent one counts as 1.
        attributes: ``strides``, ``dilations``, ``start_padding`` and ``end_padding``.
        dtype: The output's type.
    """
    spatial = []
    for axis, size in enumerate(input.shape[2:]):
        step, dilation, start, end = (
            _entry(attributes[name], axis) for name in ("strides", "dilations", "start_padding", "end_padding")
        )
        room = size + start + end - (_entry(window, axis, otherwise=1) - 1) * dilation - 1
        spatial.append(max(room // step + 1, 1) if step > 0 else 1)
    shape = ((*input.shape, 1)[0], channels, *spatial)
    return new_array(shape, dtype, memory_order(input) if len(shape) == input.ndim else range(len(shape)))


def _entry(values: Any, index: int, otherwise: int = 0) -> int:
    """Return an attribute of one axis, or another value where there is none that could be computed with."""
    value = values[index] if isinstance(values, tuple) and index < len(values) else otherwise
    return value if _is_entry(value) else otherwise


def _is_entry(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**32
