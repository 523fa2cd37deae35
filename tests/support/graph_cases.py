"""Operators that only graphs are made of, on every device against their references."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import dmlcpu
from dispatching import assert_equal_outputs, expected_storage
from filled_tensors import filled
from fills import any_integers
from native_operator import run_native
from operator_case import OperatorCase
from strided_tensor import StridedTensor

__all__ = ["assert_native_matches_reference", "layouts", "random_tensor", "strides_of"]

# How the axes of a tensor nest, outermost first.
LAYOUTS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "channels first": {rank: tuple(range(rank)) for rank in (3, 4)},
    "channels last": {3: (0, 2, 1), 4: (0, 2, 3, 1)},
}


def strides_of(sizes: tuple[int, ...], layout: str, gap: int = 0) -> tuple[int, ...]:
    """Strides of {N, C, W} or {N, C, H, W}; `gap` widens the innermost axis, as where a tensor is part of a larger."""
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(LAYOUTS[layout][len(sizes)]):
        strides[axis] = step
        step = step * sizes[axis] + (gap if step == 1 else 0)
    return tuple(strides)


def layouts() -> st.SearchStrategy[tuple[str, int]]:
    return st.tuples(st.sampled_from(tuple(LAYOUTS)), st.sampled_from((0, 0, 3)))


def random_tensor(
    rng: np.random.Generator, data_type: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> StridedTensor:
    """Integers of the whole range, in the gaps too."""
    return filled(rng, data_type, sizes, any_integers, strides)


def assert_native_matches_reference(
    devices: Mapping[str, dmlcpu.Device], case: OperatorCase, *, owned: Collection[str] = ()
) -> None:
    """Runs the case on every device. All equal to the reference, they are equal to each other."""
    outputs = case.outputs
    expected = {field: expected_storage(outputs[field], values) for field, values in case.expected().items()}
    attributes: Mapping[str, Sequence[int]] = case.attributes
    for label, device in devices.items():
        actual: dict[str, Any] = run_native(device, case.operator, case.tensors, attributes, owned=owned)
        assert_equal_outputs(actual, expected, label)
