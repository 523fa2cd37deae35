"""Hypothesis strategies: sizes, layouts, tensors on them, and how a case is bound.

A strategy is checked and labelled when it is drawn from for the first time, which takes longer than drawing. So those
that are the same for many draws are made once, and a part of a strategy is a function of its `draw`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from filled_tensors import filled
from fills import INTEGERS, SCALES, Fill
from operator_case import OperatorCase
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor, element_span

__all__ = [
    "BYTE_TYPES",
    "Run",
    "arrays",
    "binary_cases",
    "drawn_input",
    "drawn_output",
    "drawn_zero_points",
    "generators",
    "indices_into",
    "input_strides",
    "input_tensors",
    "one_element_sizes",
    "optional_zero_points",
    "output_tensors",
    "runs",
    "shapes_of_parameters",
    "tensor_sizes",
]

T = TypeVar("T")

BYTE_TYPES = ("UINT8", "INT8")

# A few sizes around the widths of vectors, many small ones.
AXIS_SIZES = st.integers(1, 5) | st.sampled_from((7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130))
GAPS = st.sampled_from((0, 0, 0, 1, 3))
FIRST_STRIDES = st.sampled_from((1, 1, 1, 2, 3))
BOOLEANS = st.booleans()
BYTES = st.sampled_from(BYTE_TYPES)
OUTPUT_LAYOUTS = st.sampled_from(("packed", "gaps", "channels last", "any order"))
INPUT_LAYOUTS = st.sampled_from(("as an output", "broadcast", "one axis", "overlap"))
OVERLAPPING_STRIDES = st.integers(0, 3)
GENERATORS = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@functools.cache
def any_of(choices: tuple[T, ...]) -> st.SearchStrategy[T]:
    return st.sampled_from(choices)


@functools.cache
def any_axis(rank: int) -> st.SearchStrategy[int]:
    return st.integers(0, rank - 1)


@functools.cache
def any_axes(rank: int) -> st.SearchStrategy[set[int]]:
    return st.sets(any_axis(rank))


@functools.cache
def any_order(rank: int) -> st.SearchStrategy[list[int]]:
    """Of the axes; the simplest is innermost first."""
    return st.permutations(range(rank)[::-1])


@functools.cache
def any_fields(fields: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(fields))


def drawn_sizes(draw: st.DrawFn, max_rank: int = 8, max_elements: int = 3000) -> tuple[int, ...]:
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, max_rank))):
        room = max_elements // math.prod(sizes)
        sizes.append(min(draw(AXIS_SIZES), room))
    return tuple(sizes[axis] for axis in draw(any_order(len(sizes))))


tensor_sizes = st.composite(drawn_sizes)


def spread_strides(draw: st.DrawFn, sizes: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Strides without overlap: the axes nest in the given order, innermost first, with gaps between them."""
    strides = [0] * len(sizes)
    step = draw(FIRST_STRIDES)
    for axis in order:
        strides[axis] = step
        step = step * sizes[axis] + draw(GAPS)
    if draw(BOOLEANS):
        # The stride of an axis of length 1 is never walked, so any number may stand there.
        strides = [17 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
    return tuple(strides)


def drawn_output_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    kind = draw(OUTPUT_LAYOUTS)
    if kind == "packed":
        return None
    row_major = list(range(len(sizes)))[::-1]
    if kind == "channels last" and len(sizes) > 2:
        return spread_strides(draw, sizes, [1, *(axis for axis in row_major if axis != 1)])
    return spread_strides(draw, sizes, row_major if kind == "gaps" else draw(any_order(len(sizes))))


def drawn_input_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """As an output's, or with axes that are broadcast or overlap."""
    kind = draw(INPUT_LAYOUTS)
    if kind == "overlap":
        return tuple(draw(OVERLAPPING_STRIDES) for _ in sizes)
    strides = drawn_output_strides(draw, sizes)
    if kind == "as an output":
        return strides
    if strides is None:
        strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    kept = {draw(any_axis(len(sizes)))} if kind == "one axis" else draw(any_axes(len(sizes)))
    return tuple(stride if axis in kept else 0 for axis, stride in enumerate(strides))


input_strides = st.composite(drawn_input_strides)


def generators() -> st.SearchStrategy[np.random.Generator]:
    return GENERATORS


def drawn_input(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...], fills: Sequence[Fill]) -> StridedTensor:
    """A tensor on a random layout. Its gaps are filled like its elements, so that reading one would tell."""
    strides = drawn_input_strides(draw, sizes)
    fill = draw(any_of(tuple(fills)))
    return filled(draw(GENERATORS), data_type, sizes, fill, strides)


input_tensors = st.composite(drawn_input)


def drawn_zero_points(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...]) -> StridedTensor | None:
    return drawn_input(draw, data_type, sizes, INTEGERS) if draw(BOOLEANS) else None


optional_zero_points = st.composite(drawn_zero_points)


def drawn_output(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...]) -> StridedTensor:
    return blank_tensor(data_type, sizes, drawn_output_strides(draw, sizes))


output_tensors = st.composite(drawn_output)


def one_element_sizes(max_rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.integers(1, max_rank).map(lambda rank: (1,) * rank)


@st.composite
def arrays(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...], fills: Sequence[Fill]) -> NDArray[Any]:
    """A numpy array of any strides, negative and zero ones included."""
    tensor = drawn_input(draw, dtype.name.upper(), shape, fills)
    return tensor.logical()[tuple(slice(None, None, -1 if draw(BOOLEANS) else 1) for _ in shape)]


@st.composite
def shapes_of_parameters(draw: st.DrawFn) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]:
    """The shape of a tensor, an axis, and the shape of scales as a function takes it and as it broadcasts.

    One element, one for each index of the axis, or a full array.
    """
    shape = drawn_sizes(draw, max_rank=4)
    axis = draw(any_axis(len(shape)))
    along_axis = tuple(size if index == axis else 1 for index, size in enumerate(shape))
    given, broadcast = draw(st.sampled_from([((1,), (1,)), ((shape[axis],), along_axis), (shape, shape)]))
    return shape, axis, given, broadcast


@st.composite
def binary_cases(draw: st.DrawFn, operator: str) -> OperatorCase:
    """Of two operands and an output of 8-bit codes, each with a scale and a zero point."""
    sizes = drawn_sizes(draw)
    ones = (1,) * len(sizes)
    a_type, b_type, output_type = (draw(BYTES) for _ in range(3))
    tensors = {
        "a_tensor": drawn_input(draw, a_type, sizes, INTEGERS),
        "a_scale_tensor": drawn_input(draw, "FLOAT32", ones, SCALES),
        "a_zero_point_tensor": drawn_zero_points(draw, a_type, ones),
        "b_tensor": drawn_input(draw, b_type, sizes, INTEGERS),
        "b_scale_tensor": drawn_input(draw, "FLOAT32", ones, SCALES),
        "b_zero_point_tensor": drawn_zero_points(draw, b_type, ones),
        "output_scale_tensor": drawn_input(draw, "FLOAT32", ones, SCALES),
        "output_zero_point_tensor": drawn_zero_points(draw, output_type, ones),
        "output_tensor": drawn_output(draw, output_type, sizes),
    }
    return OperatorCase(operator, tensors, {})


@st.composite
def indices_into(draw: st.DrawFn, sizes: tuple[int, ...], length: int) -> StridedTensor:
    """Of any sign; in gaps too, where they are not read."""
    data_type, strides = draw(any_of(("INT32", "INT64"))), drawn_input_strides(draw, sizes)
    places = draw(GENERATORS).integers(-length, length, element_span(sizes, strides))
    return StridedTensor(data_type, sizes, strides, places.astype(NUMPY_TYPES[data_type]))


@dataclass(frozen=True, eq=False)
class Run:
    """A case, which of its inputs are OWNED_BY_DML, and which tensors are bound with their shape, not flat."""

    case: OperatorCase
    owned: frozenset[str]
    shaped: frozenset[str]


@st.composite
def runs(draw: st.DrawFn, cases: st.SearchStrategy[OperatorCase]) -> Run:
    case = draw(cases)
    fields = tuple(field for field, tensor in case.tensors.items() if tensor is not None)
    inputs = tuple(field for field in fields if field in case.inputs)
    return Run(case, draw(any_fields(inputs)), draw(any_fields(fields)))
