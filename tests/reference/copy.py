"""COPY: the input's elements."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike, NDArray

from reference.arithmetic import SubnormalWatch

__all__ = ["OUTPUTS", "copy"]

OUTPUTS = ("output_tensor",)


def copy(input: NDArray[Any], *, output_data_type: DTypeLike, watch: SubnormalWatch | None = None) -> NDArray[Any]:
    """Of the input's data type."""
    assert input.dtype == output_data_type
    return input
