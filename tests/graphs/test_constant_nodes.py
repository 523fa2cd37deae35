"""Constant nodes: which arrays and bytes fit the tensors that read them, what is read of them, and which are equal."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlcpu
from dmlcpu import (
    ConstantGraphNodeDesc,
    Device,
    GraphDesc,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    TensorDataType,
    TensorDesc,
)
from dmlcpu.graph.native_graph import as_a_desc_can_say
from sample_graphs import dequantize_graph, operator_node

Devices = Mapping[str, Device]
U8, F32 = TensorDataType.UINT8, TensorDataType.FLOAT32


@pytest.mark.parametrize(
    "data",
    [np.array([0.5], object), np.array(["0.50"]), np.zeros(4, "V1"), np.ones(1, ">f4"), np.ones(4, bool), bytearray(4)],
    ids=lambda data: str(getattr(data, "dtype", type(data).__name__)),
)
def test_constants_are_numbers_in_native_order_or_bytes(data: Any) -> None:
    device = Device()
    with pytest.raises(dmlcpu.InvalidDescError, match=r"graph: nodes\[1\]: got data of ") as caught:
        device.compile_graph(dequantize_graph(device, data))
    assert caught.value.field == "nodes[1]"


def test_constants_have_no_masked_elements() -> None:
    device = Device()
    masked = np.ma.masked_array(np.float32([0.5]), False)
    result = device.compile_graph(dequantize_graph(device, masked)).dispatch(input_0=np.uint8([0, 1, 2, 255]))
    assert (result == np.float32([0, 0.5, 1, 127.5])).all()
    masked[0] = np.ma.masked
    with pytest.raises(
        dmlcpu.InvalidDescError, match=r"nodes\[1\]: got data with masked elements, expected one without"
    ):
        device.compile_graph(dequantize_graph(device, masked))


def test_constants_of_any_layout(devices: Devices) -> None:
    codes, expected = np.uint8([0, 1, 3, 200]), np.float32([0, 0.5, 1.5, 100])
    for label, device in devices.items():
        for data in (
            np.float32([0.5]).tobytes(),
            np.float32([0.5, 7]),
            np.float32([[0.5, 9]])[:, :1],
            np.array(0.5, np.float32),
            np.frombuffer(np.float32([0.5]).tobytes(), np.uint8),
        ):
            graph = device.compile_graph(dequantize_graph(device, data))
            np.testing.assert_array_equal(graph.dispatch(input_0=codes), expected, label)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.float64([0.5]), "got float64, expected float32, or bytes"),
        (np.float16([0.5, 0.5]), "got float16, expected float32, or bytes"),
        (np.int8([0] * 4), "got int8, expected float32, or bytes"),
        (np.float32([[0.5, 9]]), "got shape (1, 2), expected (4,), or elements in one dimension"),
        (np.uint8([0, 0, 0]), "got 3 bytes of data, expected at least 4"),
    ],
)
def test_constants_of_another_type_or_shape(data: Any, message: str) -> None:
    device = Device()
    with pytest.raises(dmlcpu.InvalidDescError, match=re.escape(f"intermediate_edges[0]: {message}")) as caught:
        device.compile_graph(dequantize_graph(device, data))
    assert caught.value.field == "intermediate_edges[0]"


def product_by_constant(
    device: Device, a: np.ndarray[Any, Any], b_tensor: TensorDesc, data: np.ndarray[Any, Any] | bytes
) -> GraphDesc:
    """A matrix product of an input by a constant of three rows and four columns."""
    operator = device.create_operator(
        dmlcpu.MatrixMultiplyIntegerOperatorDesc(
            a_tensor=TensorDesc.from_array(a),
            b_tensor=b_tensor,
            output_tensor=TensorDesc(TensorDataType.INT32, (2, 4)),
        )
    )
    return GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[OperatorGraphNodeDesc(operator), ConstantGraphNodeDesc(data)],
        input_edges=[InputGraphEdgeDesc(0, 0, 0)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(1, 0, 0, 2)],
    )


def test_shaped_constants_are_read_by_their_indices(random_numbers: np.random.Generator) -> None:
    device = Device()
    a, b = (random_numbers.integers(-128, 128, shape, np.int8) for shape in ((2, 3), (3, 4)))
    for strides, flat in ((None, b), ((1, 3), b.T), ((5, 1), np.pad(b, ((0, 0), (0, 1))))):
        b_tensor = TensorDesc(TensorDataType.INT8, b.shape, strides=strides)
        for data in (b, np.asfortranarray(b), b[:, None], flat.reshape(-1), flat.tobytes(), flat.view(np.uint8)):
            result = device.compile_graph(product_by_constant(device, a, b_tensor, data)).dispatch(input_0=a)
            np.testing.assert_array_equal(result, a.astype(np.int32) @ b)


def test_constants_of_tensors_that_repeat(random_numbers: np.random.Generator) -> None:
    """Of their shape, if they repeat as well, or of one row."""
    device = Device()
    a, row = (random_numbers.integers(-100, 100, shape, np.int8) for shape in ((2, 3), (1, 4)))
    whole = np.repeat(row, 3, axis=0)
    repeated = TensorDesc(TensorDataType.INT8, whole.shape, strides=(0, 1))
    for data in (whole, row, row[0]):
        result = device.compile_graph(product_by_constant(device, a, repeated, data)).dispatch(input_0=a)
        np.testing.assert_array_equal(result, a.astype(np.int32) @ whole)
    with pytest.raises(dmlcpu.InvalidDescError, match="got other elements where the tensor repeats some"):
        device.compile_graph(product_by_constant(device, a, repeated, whole + np.int8([[0], [1], [0]])))


def dequantized_by_constant(
    device: Device, input_tensor: TensorDesc, scale_tensor: TensorDesc, data: Any, number: int
) -> GraphDesc:
    """Codes times a scale, of which one, the input of a number, is constant."""
    dequantize = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=input_tensor, scale_tensor=scale_tensor, output_tensor=TensorDesc(F32, input_tensor.sizes)
    )
    return GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[operator_node(device, dequantize), ConstantGraphNodeDesc(data)],
        input_edges=[InputGraphEdgeDesc(0, 0, 1 - number)],
        output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
        intermediate_edges=[IntermediateGraphEdgeDesc(1, 0, 0, number)],
    )


@pytest.mark.parametrize(
    ("sizes", "strides", "shape"),
    [((3,), (1,), (3,)), ((3,), (2,), (3,)), ((1, 3), (7, 2), (3,)), ((1, 3), (6, 2), (1, 3)), ((2, 3), (0, 4), (3,))],
    ids=str,
)
def test_arrays_of_a_tensors_shape_are_taken_as_such(
    devices: Devices, sizes: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Of one axis too, though the tensor has gaps, in which the array has nothing."""
    codes, scales = np.uint8([1, 2, 255]).reshape(shape), np.float32([0.5, -1, 4]).reshape(shape)
    for label, device in devices.items():
        scaled = TensorDesc(F32, sizes, strides=strides)
        ones = device.compile_graph(dequantized_by_constant(device, TensorDesc(U8, sizes), scaled, scales, 1))
        result = ones.dispatch(input_0=np.full(sizes, 2, np.uint8))
        np.testing.assert_array_equal(result, np.broadcast_to(scales * 2, sizes), label)
        coded = TensorDesc(U8, sizes, strides=strides)
        halves = device.compile_graph(dequantized_by_constant(device, coded, TensorDesc(F32, sizes), codes, 0))
        result = halves.dispatch(input_0=np.full(sizes, 0.5, np.float32))
        np.testing.assert_array_equal(result, np.broadcast_to(codes / np.float32(2), sizes), label)


@pytest.mark.parametrize("number", [0, 1], ids=["codes", "scales"])
def test_one_axis_that_a_tensor_repeats(devices: Devices, number: int) -> None:
    """All elements of an array of the tensor's shape are the same, as along several axes; none is dropped unseen."""
    repeated = [
        TensorDesc(data_type, (3,), strides=(0,) if number == at else None) for at, data_type in enumerate((U8, F32))
    ]
    dtype = (np.uint8, np.float32)[number]
    for label, device in devices.items():
        for data in (dtype([2]), dtype([2, 2, 2]), dtype([2, 9]), dtype([2]).tobytes(), dtype([2, 9, 9]).tobytes()):  # type: ignore[operator]
            graph = device.compile_graph(dequantized_by_constant(device, *repeated, data, number))
            x = (np.float32, np.uint8)[number]([1, 2, 255])  # type: ignore[operator]
            np.testing.assert_array_equal(graph.dispatch(input_0=x), np.float32([2, 4, 510]), label)
        message = r"intermediate_edges\[0\]: got other elements where the tensor repeats some, expected the same again"
        with pytest.raises(dmlcpu.InvalidDescError, match=message):
            device.compile_graph(dequantized_by_constant(device, *repeated, dtype([2, 2, 3]), number))  # type: ignore[operator]


def test_constants_are_equal_by_type_shape_and_bits() -> None:
    x = np.float32([[0, 1, 2], [3, np.nan, 5]])
    node = ConstantGraphNodeDesc(x, "x")
    equal = [
        ConstantGraphNodeDesc(x.copy(), "x"),
        ConstantGraphNodeDesc(np.asfortranarray(x), "x"),
        ConstantGraphNodeDesc(np.repeat(x, 2, axis=1)[:, ::2], "x"),
    ]
    assert all(other == node and hash(other) == hash(node) for other in equal)
    others = [
        ConstantGraphNodeDesc(x),
        ConstantGraphNodeDesc(x.ravel(), "x"),
        ConstantGraphNodeDesc(x.astype(np.float64), "x"),
        ConstantGraphNodeDesc(x.view(np.int32), "x"),
        ConstantGraphNodeDesc(x * np.float32(-1), "x"),
        ConstantGraphNodeDesc(x.tobytes(), "x"),
        ConstantGraphNodeDesc(np.float32([[-0.0, 1, 2], [3, np.nan, 5]]), "x"),
    ]
    assert len({node, *others}) == 8
    assert all(other != node != other for other in others)  # a set asks only those of one hash
    assert node != "x"
    assert ConstantGraphNodeDesc(b"12") == ConstantGraphNodeDesc(bytes([49, 50]))
    for empty in (np.zeros((0, 2), np.float32), np.zeros(2, "V0")):
        assert ConstantGraphNodeDesc(empty) == ConstantGraphNodeDesc(empty.copy())
    assert ConstantGraphNodeDesc(np.array(["a", None])) == ConstantGraphNodeDesc(np.array(["a", None]))
    assert ConstantGraphNodeDesc(np.float32(1).reshape(())) != ConstantGraphNodeDesc(np.float32(2).reshape(()))
    # Two names of one type, whose hashes numpy makes of the names.
    assert len({ConstantGraphNodeDesc(np.zeros(2, name)) for name in ("q", "l", "int64")}) == 1


def test_arrays_that_no_desc_can_say_are_copied() -> None:
    pairs = np.zeros(3, [("a", np.int8), ("b", np.float32)])["b"]
    for array in (np.arange(4, dtype=np.uint8)[::-1], pairs, np.zeros(9, np.uint8)[1:].view(np.float32)):
        copy = as_a_desc_can_say(array)
        assert (copy.flags.c_contiguous, copy.flags.aligned) == (True, True)
        assert copy.tobytes() == array.tobytes()
    for array in (np.zeros((2, 3)).T, np.zeros((4, 3), np.float32)[::2]):
        assert as_a_desc_can_say(array) is array


def test_large_constants_are_compared_without_copies() -> None:
    x = np.arange(1 << 20, dtype=np.uint32)
    same, other = x.copy(), x.copy()
    other[-1] ^= 1 << 31
    tracemalloc.start()
    try:
        assert ConstantGraphNodeDesc(x) == ConstantGraphNodeDesc(same)
        assert ConstantGraphNodeDesc(x) != ConstantGraphNodeDesc(other)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes // 4
    finally:
        tracemalloc.stop()


def test_four_bit_arrays_of_a_tensors_shape() -> None:
    """One element in each byte, of one axis; packed bytes are as they lie."""
    device, one = Device(), TensorDesc(F32, (1,))
    signed = np.array([1, -2, 3], ml_dtypes.int4)
    for data, strides, expected in (
        (signed, (2,), [1, -2, 3]),
        (signed[[1, 1, 1]], (0,), [-2, -2, -2]),
        (np.uint8([0x21, 0x43, 0x65]), (2,), [1, 3, 5]),
        (np.uint8([0x21, 0x43, 0x65]), (0,), [1, 1, 1]),
    ):
        dequantize = dmlcpu.DequantizeOperatorDesc(
            input_tensor=TensorDesc(TensorDataType.INT4, (3,), strides=strides),
            quantization_type=dmlcpu.QuantizationType.SCALE,
            quantization_tensors=(one,),
            output_tensor=TensorDesc(F32, (3,)),
        )
        graph = device.compile_graph(
            GraphDesc(
                input_count=1,
                output_count=1,
                nodes=[operator_node(device, dequantize), ConstantGraphNodeDesc(data)],
                input_edges=[InputGraphEdgeDesc(0, 0, 1)],
                output_edges=[OutputGraphEdgeDesc(0, 0, 0)],
                intermediate_edges=[IntermediateGraphEdgeDesc(1, 0, 0, 0)],
            )
        )
        np.testing.assert_array_equal(graph.dispatch(input_0=np.float32([1])), expected)
