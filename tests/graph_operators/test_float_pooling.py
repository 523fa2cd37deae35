"""FLOAT_POOLING on random layouts and windows, against the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dmlcpu
from dispatching import inside
from fills import INPUT_FLOATS
from float_windows import ATTRIBUTES, FUNCTIONS, Attributes, output_sizes
from graph_cases import assert_native_matches_reference, strides_of
from native_operator import run_native
from operator_case import OperatorCase
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor, element_span

Devices = Mapping[str, dmlcpu.Device]


@st.composite
def cases(draw: st.DrawFn) -> OperatorCase:
    axes = []
    function = draw(st.integers(0, 3))
    compares = function in (1, 2)
    for _ in range(2):
        size, window, dilation, stride = (draw(st.integers(1, most)) for most in (12, 4, 3, 4))
        reach = (window - 1) * dilation
        # Of an average, or a sum, a window may be wholly in the padding.
        most = reach + (0 if compares else 2)
        start, end = draw(st.integers(0, most)), draw(st.integers(0, most))
        assume(size + start + end > reach)
        inside = [
            any(0 <= o * stride - start + i * dilation < size for i in range(window))
            for o in range((size + start + end - reach - 1) // stride + 1)
        ]
        assume(not compares or all(inside))
        axes.append((size, window, dilation, stride, start, end))
    spatial, window_size, dilations, strides, start_padding, end_padding = zip(*axes, strict=True)
    sizes = (draw(st.integers(1, 2)), draw(st.integers(1, 9) | st.sampled_from((15, 16, 17, 33, 70))), *spatial)
    attributes = {
        "function": (function,),
        "include_padding": (int(draw(st.booleans())),),
        "strides": strides,
        "dilations": dilations,
        "window_size": window_size,
        "start_padding": start_padding,
        "end_padding": end_padding,
    }
    tensors = {
        "input_tensor": draw(input_tensors("FLOAT32", sizes, INPUT_FLOATS)),
        "output_tensor": draw(output_tensors("FLOAT32", output_sizes(sizes, attributes))),
    }
    return OperatorCase("FLOAT_POOLING", tensors, attributes)


@given(cases())
def test_equals_the_reference(devices: Devices, case: OperatorCase) -> None:
    assert_native_matches_reference(devices, case)


@pytest.mark.parametrize("function", [0, 1, 2, 3])
@pytest.mark.parametrize("input_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("output_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("sizes", [(2, 2100, 7, 6), (3, 40, 61, 50), (2, 1, 200, 300)])
def test_several_tasks(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    input_layout: str,
    output_layout: str,
    sizes: tuple[int, ...],
) -> None:
    """Also more channels than fit the stack at once."""
    attributes = {**ATTRIBUTES, "function": (function,)}
    strides, pooled = strides_of(sizes, input_layout, 5), output_sizes(sizes, attributes)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", pooled, strides_of(pooled, output_layout, 3)),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(("function", "include_padding"), FUNCTIONS)
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("turned", [("input",), ("output",), ("input", "output")], ids=str)
@pytest.mark.parametrize(
    ("sizes", "window"),
    [
        ((2, 3, 70, 40), (1, 5)),
        ((2, 3, 70, 40), (4, 1)),
        ((2, 3, 70, 40), (1, 1)),
        ((2, 3, 70, 40), (2, 2)),
        ((1, 1, 9, 300), (1, 5)),
        ((1, 2, 5, 1300), (1, 1100)),
    ],
    ids=str,
)
def test_neighbours_in_columns(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    strides: tuple[int, int],
    turned: tuple[str, ...],
    sizes: tuple[int, ...],
    window: tuple[int, int],
) -> None:
    """Planes whose columns are runs in memory, pooled in one direction or in both."""
    padding = tuple(length // 2 for length in window)
    attributes = {
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": strides,
        "dilations": (1, 1),
        "window_size": window,
        "start_padding": padding,
        "end_padding": padding,
    }
    pooled = output_sizes(sizes, attributes)

    def steps(of: tuple[int, ...], tensor: str) -> tuple[int, ...]:
        plane = of[2] * of[3]
        return (of[1] * plane, plane, *((1, of[2]) if tensor in turned else (of[3], 1)))

    tensors = {
        "input_tensor": StridedTensor(
            "FLOAT32", sizes, steps(sizes, "input"), random_numbers.normal(size=np.prod(sizes)).astype(np.float32)
        ),
        "output_tensor": blank_tensor("FLOAT32", pooled, steps(pooled, "output")),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(("function", "include_padding"), FUNCTIONS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("input_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("output_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("sizes", [(2, 7, 1, 336), (1, 1, 1, 2500), (2, 40, 1, 130), (1, 2, 4, 40), (3, 3, 1, 5)])
def test_wide_windows(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    stride: int,
    input_layout: str,
    output_layout: str,
    sizes: tuple[int, ...],
) -> None:
    """Windows cut off at both ends, in rows of several blocks and in rows that are shorter than they are."""
    attributes = {
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": (1, stride),
        "dilations": (1, 1),
        "window_size": (1, 25),
        "start_padding": (0, 12),
        "end_padding": (0, 12),
    }
    strides, pooled = strides_of(sizes, input_layout), output_sizes(sizes, attributes)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", pooled, strides_of(pooled, output_layout)),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize(("function", "include_padding"), FUNCTIONS)
@pytest.mark.parametrize("input_layout", ["channels first", "channels last"])
@pytest.mark.parametrize(
    ("sizes", "window", "padding"),
    [
        ((2, 3, 33, 37), (33, 37), (0, 0)),
        ((1, 17, 32, 32), (32, 32), (0, 0)),
        ((1, 3, 5, 2100), (3, 1023), (1, 4)),
        ((1, 2, 1, 3000), (1, 2500), (0, 700)),
        ((1, 2, 60, 7), (1, 1025), (0, 1020)),
        # Halves that are wholly in the padding.
        ((1, 2, 40, 30), (90, 41), (60, 6)),
        ((1, 1, 2, 3), (20, 3000), (19, 2999)),
    ],
)
def test_large_windows(
    devices: Devices,
    random_numbers: np.random.Generator,
    function: int,
    include_padding: int,
    input_layout: str,
    sizes: tuple[int, ...],
    window: tuple[int, int],
    padding: tuple[int, int],
) -> None:
    """Of more than 1024 taps, and of just as many: sums of halves, wherever taps are in the padding."""
    attributes = {
        **ATTRIBUTES,
        "function": (function,),
        "include_padding": (include_padding,),
        "strides": (5, 300),
        "window_size": window,
        "start_padding": padding,
        "end_padding": padding,
    }
    strides = strides_of(sizes, input_layout)
    values = random_numbers.normal(size=element_span(sizes, strides)).astype(np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", output_sizes(sizes, attributes), None),
    }
    assert_native_matches_reference(devices, OperatorCase("FLOAT_POOLING", tensors, attributes))


@pytest.mark.parametrize("input_layout", ["channels first", "channels last"])
@pytest.mark.parametrize("sizes", [(1, 1, 1024, 1024), (1, 2, 300, 500), (1, 1, 1, 1 << 20)])
def test_averages_of_any_number_are_close(device: dmlcpu.Device, input_layout: str, sizes: tuple[int, ...]) -> None:
    """A sum that grows past its terms would lose their last bits: of equal ones always in the same direction."""
    strides = strides_of(sizes, input_layout)
    values = np.full(element_span(sizes, strides), 0.1, np.float32)
    tensors = {
        "input_tensor": StridedTensor("FLOAT32", sizes, strides, values),
        "output_tensor": blank_tensor("FLOAT32", (*sizes[:2], 1, 1), None),
    }
    attributes = {
        **ATTRIBUTES,
        "strides": (1, 1),
        "window_size": sizes[2:],
        "start_padding": (0, 0),
        "end_padding": (0, 0),
    }
    result = inside(run_native(device, "FLOAT_POOLING", tensors, attributes)["output_tensor"])
    assert np.abs(result / np.float64(values[0]) - 1).max() < 2**-13.9


@pytest.mark.parametrize(
    ("input_sizes", "output_sizes", "changed"),
    [
        ((1, 2, 5, 6), (1, 2, 3, 4), {}),
        ((1, 2, 5, 6), (1, 3, 3, 3), {}),
        ((1, 2, 1, 5, 6), (1, 2, 1, 3, 3), {}),
        ((1, 2, 5, 6), (1, 2, 3, 3), {"function": (4,)}),
        ((1, 2, 5, 6), (1, 2, 3, 3), {"strides": (2,)}),
        ((1, 2, 5, 6), (1, 2, 3, 3), {"window_size": (0, 2)}),
        # A maximum of nothing.
        ((1, 2, 5, 6), (1, 2, 4, 3), {"function": (1,), "start_padding": (3, 0)}),
    ],
)
def test_refuses_what_does_not_fit(
    device: dmlcpu.Device, input_sizes: tuple[int, ...], output_sizes: tuple[int, ...], changed: Attributes
) -> None:
    fitting = {
        "input_tensor": blank_tensor("FLOAT32", (1, 2, 5, 6), None),
        "output_tensor": blank_tensor("FLOAT32", (1, 2, 3, 3), None),
    }
    run_native(device, "FLOAT_POOLING", fitting, ATTRIBUTES)
    tensors = {
        "input_tensor": blank_tensor("FLOAT32", input_sizes, None),
        "output_tensor": blank_tensor("FLOAT32", output_sizes, None),
    }
    with pytest.raises(ValueError, match="FLOAT_POOLING"):
        run_native(device, "FLOAT_POOLING", tensors, {**ATTRIBUTES, **changed})


def test_pixels_that_overlap(device: dmlcpu.Device) -> None:
    """At a stride of as many pixels as they have channels the columns read neighbours, but not beside the row."""
    values = np.arange(1, 6, dtype=np.float32)
    x = StridedTensor("FLOAT32", (1, 2, 1, 4), (99, 1, 99, 1), values)
    attributes = {
        "function": (0,),
        "include_padding": (0,),
        "strides": (1, 2),
        "dilations": (1, 1),
        "window_size": (1, 2),
        "start_padding": (0, 1),
        "end_padding": (0, 1),
    }
    tensors = {"input_tensor": x, "output_tensor": blank_tensor("FLOAT32", (1, 2, 1, 3), None)}
    result = run_native(device, "FLOAT_POOLING", tensors, attributes)
    assert inside(result["output_tensor"]).tolist() == [1, 2.5, 4, 2, 3.5, 5]
