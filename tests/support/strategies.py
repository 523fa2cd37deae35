"""Hypothesis strategies: sizes, layouts, tensors on them, and how a case is bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

BYTE_TYPES = ("UINT8", "INT8")

# A few sizes around the widths of vectors, many small ones.
AXIS_SIZES = st.integers(1, 5) | st.sampled_from((7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130))
GAPS = st.sampled_from((0, 0, 0, 1, 3))


@st.composite
def tensor_sizes(draw: st.DrawFn, max_rank: int = 8, max_elements: int = 3000) -> tuple[int, ...]:
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, max_rank))):
        room = max_elements // math.prod(sizes)
        sizes.append(min(draw(AXIS_SIZES), room))
    return tuple(draw(st.permutations(sizes)))


@st.composite
def spread_strides(draw: st.DrawFn, sizes: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    """Strides without overlap: the axes nest in the given order, innermost first, with gaps between them."""
    strides = [0] * len(sizes)
    step = draw(st.sampled_from((1, 1, 1, 2, 3)))
    for axis in order:
        strides[axis] = step
        step = step * sizes[axis] + draw(GAPS)
    if draw(st.booleans()):
        # The stride of an axis of length 1 is never walked, so any number may stand there.
        strides = [17 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
    return tuple(strides)


@st.composite
def output_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    kind = draw(st.sampled_from(("packed", "gaps", "channels last", "any order")))
    if kind == "packed":
        return None
    row_major = list(range(len(sizes)))[::-1]
    if kind == "channels last" and len(sizes) > 2:
        return draw(spread_strides(sizes, [1, *(axis for axis in row_major if axis != 1)]))
    order = row_major if kind == "gaps" else draw(st.permutations(row_major))
    return draw(spread_strides(sizes, order))


@st.composite
def input_strides(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """As an output's, or with axes that are broadcast or overlap."""
    kind = draw(st.sampled_from(("as an output", "broadcast", "one axis", "overlap")))
    if kind == "overlap":
        return tuple(draw(st.integers(0, 3)) for _ in sizes)
    strides = draw(output_strides(sizes))
    if kind == "as an output":
        return strides
    if strides is None:
        strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    if kind == "one axis":
        kept = {draw(st.integers(0, len(sizes) - 1))}
    else:
        kept = draw(st.sets(st.integers(0, len(sizes) - 1)))
    return tuple(stride if axis in kept else 0 for axis, stride in enumerate(strides))


def generators() -> st.SearchStrategy[np.random.Generator]:
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def input_tensors(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...], fills: Sequence[Fill]) -> StridedTensor:
    """A tensor on a random layout. Its gaps are filled like its elements, so that reading one would tell."""
    strides = draw(input_strides(sizes))
    fill = draw(st.sampled_from(fills))
    return filled(draw(generators()), data_type, sizes, fill, strides)


@st.composite
def optional_zero_points(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...]) -> StridedTensor | None:
    return draw(st.none() | input_tensors(data_type, sizes, INTEGERS))


def output_tensors(data_type: str, sizes: tuple[int, ...]) -> st.SearchStrategy[StridedTensor]:
    return output_strides(sizes).map(lambda strides: blank_tensor(data_type, sizes, strides))


def one_element_sizes(max_rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.integers(1, max_rank).map(lambda rank: (1,) * rank)


@st.composite
def arrays(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...], fills: Sequence[Fill]) -> NDArray[Any]:
    """A numpy array of any strides, negative and zero ones included."""
    tensor = draw(input_tensors(dtype.name.upper(), shape, fills))
    flips = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    return tensor.logical()[tuple(slice(None, None, -1 if flip else 1) for flip in flips)]


@st.composite
def shapes_of_parameters(draw: st.DrawFn) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]:
    """The shape of a tensor, an axis, and the shape of scales as a function takes it and as it broadcasts.

    One element, one for each index of the axis, or a full array.
    """
    shape = draw(tensor_sizes(max_rank=4))
    axis = draw(st.integers(0, len(shape) - 1))
    along_axis = tuple(size if index == axis else 1 for index, size in enumerate(shape))
    given, broadcast = draw(st.sampled_from([((1,), (1,)), ((shape[axis],), along_axis), (shape, shape)]))
    return shape, axis, given, broadcast


@st.composite
def binary_cases(draw: st.DrawFn, operator: str) -> OperatorCase:
    """Of two operands and an output of 8-bit codes, each with a scale and a zero point."""
    sizes = draw(tensor_sizes())
    ones = (1,) * len(sizes)
    a_type, b_type, output_type = (draw(st.sampled_from(BYTE_TYPES)) for _ in range(3))
    tensors = {
        "a_tensor": draw(input_tensors(a_type, sizes, INTEGERS)),
        "a_scale_tensor": draw(input_tensors("FLOAT32", ones, SCALES)),
        "a_zero_point_tensor": draw(optional_zero_points(a_type, ones)),
        "b_tensor": draw(input_tensors(b_type, sizes, INTEGERS)),
        "b_scale_tensor": draw(input_tensors("FLOAT32", ones, SCALES)),
        "b_zero_point_tensor": draw(optional_zero_points(b_type, ones)),
        "output_scale_tensor": draw(input_tensors("FLOAT32", ones, SCALES)),
        "output_zero_point_tensor": draw(optional_zero_points(output_type, ones)),
        "output_tensor": draw(output_tensors(output_type, sizes)),
    }
    return OperatorCase(operator, tensors, {})


@st.composite
def indices_into(draw: st.DrawFn, sizes: tuple[int, ...], length: int) -> StridedTensor:
    """Of any sign; in gaps too, where they are not read."""
    data_type, strides = draw(st.sampled_from(("INT32", "INT64"))), draw(input_strides(sizes))
    places = draw(generators()).integers(-length, length, element_span(sizes, strides))
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
    fields = [field for field, tensor in case.tensors.items() if tensor is not None]
    inputs = [field for field in fields if field in case.inputs]
    return Run(case, draw(st.frozensets(st.sampled_from(inputs))), draw(st.frozensets(st.sampled_from(fields))))
