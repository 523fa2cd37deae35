"""Graphs of expressions compute what their operators compute one after the other, to the bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    Device,
    Expression,
    GraphBuilder,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    input_tensor,
)
from sample_graphs import (
    Devices,
    Rng,
    codes,
)


def block(x: Any, weights: Mapping[str, Any]) -> Any:
    """A bottleneck with a residual connection, from float to float, on arrays or expressions."""
    start = dmlcpu.quantize_linear(x, 0.02, 128)
    y = dmlcpu.quantized_linear_convolution(
        start,
        0.02,
        128,
        weights["first"],
        weights["scales"],
        None,
        weights["bias"],
        0.05,
        3,
        start_padding=1,
        end_padding=1,
    )
    y = dmlcpu.quantized_linear_convolution(
        y, 0.05, 3, weights["depthwise"], 0.01, None, None, 0.04, 100, start_padding=1, end_padding=1, group_count=24
    )
    y = dmlcpu.quantized_linear_convolution(y, 0.04, 100, weights["last"], 0.02, None, None, 0.05, 128)
    total = dmlcpu.quantized_linear_add(start, 0.02, 128, y, 0.05, 128, 0.06, 120)
    return dmlcpu.dequantize_linear(total, 0.06, 120)


@pytest.fixture
def weights(random_numbers: Rng) -> dict[str, Any]:
    return {
        "first": codes(random_numbers, (24, 19, 3, 3), np.int8),
        "scales": random_numbers.uniform(0.001, 0.01, 24).astype(np.float32),
        "bias": random_numbers.integers(-5000, 5000, 24, np.int32),
        "depthwise": codes(random_numbers, (24, 1, 3, 3), np.int8),
        "last": codes(random_numbers, (19, 24, 1, 1), np.int8),
    }


@pytest.mark.parametrize("strides", [None, (19 * 77, 1, 19 * 11, 19)], ids=["NCHW", "NHWC"])
def test_a_residual_block_has_the_bits_of_its_operators(
    devices: Devices, random_numbers: Rng, weights: dict[str, Any], strides: tuple[int, ...] | None
) -> None:
    x = random_numbers.normal(0, 1, (2, 19, 7, 11)).astype(np.float32)
    if strides is not None:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    expected = block(x, weights)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        desc = TensorDesc(TensorDataType.FLOAT32, x.shape, strides=strides)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(input_tensor(builder, 0, desc), weights)])
        result = graph.dispatch(input_0=x)
        assert result.strides == expected.strides, label
        np.testing.assert_array_equal(result, expected, label)
        out = np.full(x.shape, np.nan, np.float32)
        assert graph.dispatch(input_0=x, output_0=out if strides is None else None) is not None
        np.testing.assert_array_equal(out if strides is None else expected, expected, label)


def test_values_between_convolutions_have_their_channels_innermost(
    random_numbers: Rng, weights: dict[str, Any]
) -> None:
    builder = GraphBuilder(Device(num_threads=1))
    x = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (1, 19, 8, 8)))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(x, weights)])
    assert "transposed" not in graph.describe()


def test_several_outputs_and_inputs_at_initialize(devices: Devices, random_numbers: Rng) -> None:
    x, w = codes(random_numbers, (1, 8, 5, 5)), codes(random_numbers, (4, 8, 3, 3), np.int8)
    expected = dmlcpu.quantized_linear_convolution(x, 0.1, 7, w, 0.1, None, None, 0.9, 128)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        image = input_tensor(builder, 0, TensorDesc.from_array(x))
        filters = input_tensor(builder, 1, TensorDesc.from_array(w, TensorFlags.OWNED_BY_DML))
        y = dmlcpu.quantized_linear_convolution(image, 0.1, 7, filters, 0.1, None, None, 0.9, 128)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [y, dmlcpu.dequantize_linear(y, 0.9, 128), y])
        with pytest.raises(dmlcpu.DmlError, match="before dispatch"):
            graph.dispatch(input_0=x)
        with pytest.raises(dmlcpu.BindingError, match="input_1"):
            graph.initialize()
        graph.initialize(input_1=w)
        with pytest.raises(dmlcpu.DmlError, match="already"):
            graph.initialize(input_1=w)
        outputs = graph.dispatch(input_0=x)
        np.testing.assert_array_equal(outputs.output_0, expected, label)
        np.testing.assert_array_equal(outputs.output_1, dmlcpu.dequantize_linear(expected, 0.9, 128), label)
        np.testing.assert_array_equal(outputs.output_2, expected, label)


def test_operands_broadcast_as_with_arrays(devices: Devices, random_numbers: Rng) -> None:
    a, b = codes(random_numbers, (2, 5, 3, 4)), codes(random_numbers, (5, 1, 1), np.int8)
    expected = dmlcpu.quantized_linear_add(a, 0.5, 3, b, 0.25, None, 0.7, 9)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        left, right = (input_tensor(builder, i, TensorDesc.from_array(array)) for i, array in enumerate((a, b)))
        total = dmlcpu.quantized_linear_add(left, 0.5, 3, right, 0.25, None, 0.7, 9)
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [total])
        np.testing.assert_array_equal(graph.dispatch(input_0=a, input_1=b), expected, label)


def test_many_threads_dispatch_one_graph(random_numbers: Rng, weights: dict[str, Any]) -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(TensorDataType.FLOAT32, (1, 19, 9, 9)))
    graph = builder.build(dmlcpu.ExecutionFlags.NONE, [block(x, weights)])
    images = [random_numbers.normal(0, 1, (1, 19, 9, 9)).astype(np.float32) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda image: graph.dispatch(input_0=image), images * 4))
    for image, result in zip(images * 4, results, strict=True):
        np.testing.assert_array_equal(result, block(image, weights))


def test_a_builder_goes_with_its_expressions(device: Device, random_numbers: Rng) -> None:
    builder = GraphBuilder(device)
    x = input_tensor(builder, 0, TensorDesc(TensorDataType.UINT8, (1, 8)))
    y = dmlcpu.matrix_multiply_integer(x, 0, codes(random_numbers, (8, 8), np.int8), 0)
    graph, gone = builder.build(dmlcpu.ExecutionFlags.NONE, [y]), weakref.ref(builder)
    del builder, x, y
    gc.collect()
    assert gone() is None
    assert graph.dispatch(input_0=np.ones((1, 8), np.uint8)).shape == (1, 8)


def test_constants_are_what_arrays_held_when_they_were_passed(random_numbers: Rng) -> None:
    """Arrays of any layout, written to before the graph is built: packed, transposed, with gaps, repeated."""
    x = codes(random_numbers, (3, 4))
    builder = GraphBuilder()
    left = input_tensor(builder, 0, TensorDesc.from_array(x))
    memory = codes(random_numbers, (9, 10), np.int8)
    views = [memory[:4], memory.T[3:7], memory[1:8:2, ::3], np.broadcast_to(memory[0], (4, 10)), memory[5:, 9:]]
    outputs, expected = [], []
    for b in views:
        outputs.append(dmlcpu.matrix_multiply_integer(left, 0, b, 0))
        expected.append(dmlcpu.matrix_multiply_integer(x, 0, b, 0))
        memory += 1
    scale = np.zeros(1, np.float32)
    for step in (1, 2, 4):
        scale[:] = step
        outputs.append(dmlcpu.dequantize_linear(left, scale))
        expected.append(dmlcpu.dequantize_linear(x, scale))
    scale[:] = 8
    for result, wanted in zip(
        builder.build(dmlcpu.ExecutionFlags.NONE, outputs).dispatch(input_0=x), expected, strict=True
    ):
        np.testing.assert_array_equal(result, wanted)


def test_what_no_output_needs_is_not_compiled() -> None:
    builder = dmlcpu.GraphBuilder(dmlcpu.Device())
    desc = dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (4,))
    x, unused = (dmlcpu.input_tensor(builder, index, desc) for index in (0, 1))
    weights = dmlcpu.input_tensor(builder, 2, replace(desc, flags=dmlcpu.TensorFlags.OWNED_BY_DML))
    dead = dmlcpu.quantized_linear_add(x, 1.0, 0, np.uint8([1, 2, 3, 4]), 1.0, 0, 2.0, 0)
    total = dmlcpu.quantized_linear_add(x, 1.0, 0, weights, 1.0, 0, 1.0, 0)
    codes = np.uint8([1, 2, 3, 250])
    expected = np.float32([2, 4, 6, 255])
    for _ in range(2):  # what was built before is not in the next graph
        graph = builder.build(dmlcpu.ExecutionFlags.NONE, [dmlcpu.dequantize_linear(total, 1.0), total])
        assert [step.type for step in graph.steps] == [  # type: ignore[attr-defined]
            "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
            "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        ]
        graph.initialize(input_2=codes)
        floats, sums = graph.dispatch(input_0=codes, input_1=codes)
        np.testing.assert_array_equal(floats, expected)
        np.testing.assert_array_equal(sums, expected.astype(np.uint8))
    other = builder.build(dmlcpu.ExecutionFlags.NONE, [dead, unused])
    other.initialize(input_2=codes)
    halves, same = other.dispatch(input_0=codes, input_1=codes)
    np.testing.assert_array_equal(halves, np.uint8([1, 2, 3, 127]))
    np.testing.assert_array_equal(same, codes)
    with pytest.raises(dmlcpu.BindingError, match="input_1"):
        graph.dispatch(input_0=codes)


def test_mistakes_with_expressions() -> None:
    builder = GraphBuilder()
    desc = TensorDesc(TensorDataType.UINT8, (1, 2, 3, 3))
    x = input_tensor(builder, 0, desc)
    assert isinstance(x, Expression)
    assert x.reshape((1, 2, 3, 3)) is x
    with pytest.raises(ValueError, match="index"):
        input_tensor(builder, 0, desc)
    with pytest.raises(dmlcpu.InvalidDescError):
        input_tensor(builder, 1, TensorDesc(TensorDataType.UINT8, (0,)))
    with pytest.raises(dmlcpu.InvalidDescError):
        dmlcpu.dequantize_linear(x, 0.5, output_data_type=TensorDataType.INT8)
    with pytest.raises(dmlcpu.BindingError, match=r"^dequantize_linear: out: got an array, expected None"):
        dmlcpu.dequantize_linear(x, 0.5, out=np.empty((1, 2, 3, 3), np.float32))
    with pytest.raises(dmlcpu.BindingError, match=r"^dynamic_quantize_linear: out\[2\]: got an array, expected None"):
        dmlcpu.dynamic_quantize_linear(dmlcpu.dequantize_linear(x, 0.5), out=(None, None, np.empty((), np.uint8)))
    with pytest.raises(dmlcpu.BindingError, match="device"):
        dmlcpu.dequantize_linear(x, 0.5, device=Device(isa="scalar", num_threads=3))
    with pytest.raises(dmlcpu.BindingError, match="another GraphBuilder"):
        dmlcpu.quantized_linear_add(x, 1.0, None, input_tensor(GraphBuilder(), 0, desc), 1.0, None, 1.0, None)
    with pytest.raises(ValueError, match="elements"):
        x.reshape((5,))
    with pytest.raises(ValueError, match="outputs"):
        builder.build(dmlcpu.ExecutionFlags.NONE, [])
    with pytest.raises(TypeError, match=r"outputs\[0\]"):
        builder.build(dmlcpu.ExecutionFlags.NONE, [np.zeros(3)])
