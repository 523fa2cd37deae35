"""What the native module refuses by itself: its memory safety rests on no check of Python's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import pytest

from dmlcpu import _core
from dmlcpu.enums import TensorDataType
from dmlcpu.graph.native_graph import ValueKind

Tensor = tuple[str, Sequence[int]]


def not_called(*_: Any) -> NoReturn:
    raise AssertionError


def packed(sizes: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def bind(
    operator: str,
    tensors: Mapping[str, Tensor | None],
    attributes: Mapping[str, Sequence[int]],
    strides: Mapping[str, Sequence[int]],
) -> None:
    rows: list[Any] = []
    for name, tensor in tensors.items():
        if tensor is None:
            rows.append(None)
            continue
        data_type, sizes = tensor
        row = (int(TensorDataType[data_type]), sizes, strides.get(name, packed(sizes)), False, name == "output")
        rows.append(row)
    names = [(name, None) for name in tensors]
    _core.bind_operator(operator, names, rows, attributes, "scalar", 1, not_called, not_called)


WINDOW = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
PRODUCT: dict[str, Tensor | None] = {
    "a": ("INT32", (2, 3)),
    "a_scale": ("FLOAT32", (1, 1)),
    "a_zero_point": ("INT32", (1, 1)),
    "b": ("INT16", (3, 4)),
    "b_scale": ("FLOAT32", (1, 1)),
    "b_zero_point": ("INT16", (1, 1)),
    "bias": ("FLOAT32", (2, 4)),
    "output": ("FLOAT32", (2, 4)),
}
NARROW_PRODUCT: dict[str, Tensor | None] = {
    **PRODUCT,
    "a": ("UINT8", (2, 3)),
    "a_zero_point": None,
    "b": ("INT8", (3, 4)),
    "b_zero_point": None,
}


@pytest.mark.parametrize(
    ("product", "changed"),
    [
        (PRODUCT, {"a_zero_point": ("UINT8", (1, 1))}),
        (PRODUCT, {"b_zero_point": ("UINT8", (1, 1))}),
        (PRODUCT, {"bias": ("FLOAT16", (2, 4))}),
        (NARROW_PRODUCT, {"bias": ("FLOAT16", (2, 4))}),
    ],
)
def test_products_read_elements_of_one_size(
    product: Mapping[str, Tensor | None], changed: Mapping[str, Tensor | None]
) -> None:
    bind("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", product, {}, {})
    with pytest.raises(ValueError, match="data type"):
        bind("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", {**product, **changed}, {}, {})


@pytest.mark.parametrize("height", [2**32, 2**63 - 1])
def test_sizes_of_images_are_in_range(height: int) -> None:
    """An axis that repeats takes no memory, however long it is."""
    repeated = {"input": (1, 1, 0, 1)}
    one: Tensor = ("FLOAT32", (1, 1, 1, 1))
    convolution: dict[str, Tensor | None] = {
        "input": ("UINT8", (1, 1, height, 1)),
        "input_scale": one,
        "input_zero_point": None,
        "filter": ("UINT8", (1, 1, 1, 1)),
        "filter_scale": one,
        "filter_zero_point": None,
        "bias": None,
        "output_scale": one,
        "output_zero_point": None,
        "output": ("UINT8", (1, 1, 1, 1)),
    }
    steps = {"strides": (2**32 - 1, 1)}
    with pytest.raises(ValueError, match="out of range"):
        bind("QUANTIZED_LINEAR_CONVOLUTION", convolution, {**WINDOW, **steps, "group_count": (1,)}, repeated)
    pooling = {
        name: convolution[name]
        for name in ("input", "input_scale", "input_zero_point", "output_scale", "output_zero_point", "output")
    }
    attributes = {**WINDOW, **steps, "window_size": (1, 1), "include_padding": (0,)}
    with pytest.raises(ValueError, match="out of range"):
        bind("QUANTIZED_LINEAR_AVERAGE_POOLING", pooling, attributes, repeated)


def test_nodes_of_graphs_write_something() -> None:
    values = [(int(ValueKind.INPUT), "x", int(TensorDataType.UINT8), (1,), (1,))]
    for operator in ("MAX_POOLING", "ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
        with pytest.raises(ValueError, match="writes no value"):
            _core.bind_graph(values, [(operator, "node", (0,), (), {})], "scalar", 1, not_called, not_called)
