"""Rows of constant codes: GatherBlockQuantized, and Gather behind DequantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, results_of_onnxruntime, steps_of

Array = NDArray[Any]

PLACES = np.array([[1, -2, 49], [0, 1, 7]])


def add_codes(builder: Builder, name: str, dtype: str, codes: Array) -> str:
    element = getattr(onnx.TensorProto, dtype.upper())
    builder.initializers.append(onnx.helper.make_tensor(name, element, codes.shape, codes.reshape(-1).tolist()))
    return name


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    least = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    return rng.integers(least, least + (1 << bits), shape)


@pytest.mark.parametrize(("dtype", "bits"), [("int4", 4), ("uint4", 4), ("uint8", 4), ("uint8", 8)])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("block_size", [16, 32, 64])
def test_gather_block_quantized(
    random_numbers: np.random.Generator, dtype: str, bits: int, zero_points: bool, block_size: int
) -> None:
    builder = Builder(21)
    places = builder.input("int64", ("rows", 3))
    in_byte = 2 if (dtype, bits) == ("uint8", 4) else 1
    blocks = 64 // block_size
    inputs = [add_codes(builder, "codes", dtype, drawn(random_numbers, dtype, (50, 64 // in_byte))), places]
    inputs.append(random_numbers.random((50, blocks), np.float32) + np.float32(0.5))
    if zero_points:
        points = drawn(random_numbers, dtype, (50, -(-blocks // in_byte)))
        inputs.append(add_codes(builder, "points", dtype, points))
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": block_size, "bits": bits}
    builder.output(builder.node("com.microsoft.GatherBlockQuantized", inputs, **attributes), "float32")
    model = builder.build()
    try:
        [expected] = results_of_onnxruntime(model, {"x": PLACES})
    except (onnxruntime.capi.onnxruntime_pybind11_state.Fail, RuntimeError):
        pytest.skip("onnxruntime does not know these codes")
    session = dmlcpu.InferenceSession(model)
    [result] = session.run(None, {"x": PLACES})
    assert np.array_equal(result, expected)
    [again] = session.run(None, {"x": PLACES[:1]})
    assert np.array_equal(again, expected[:1])
    [partition] = session.partitions({"x": PLACES.shape})
    assert partition.provider == "dmlcpu"


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("columns", [1, 15, 20])
def test_rows_that_are_no_whole_blocks(random_numbers: np.random.Generator, dtype: str, columns: int) -> None:
    builder = Builder(21)
    places = builder.input("int64", ("rows", 3))
    codes = add_codes(builder, "codes", dtype, drawn(random_numbers, dtype, (50, columns)))
    scales = random_numbers.random((50, -(-columns // 16)), np.float32)
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    node = builder.node("com.microsoft.GatherBlockQuantized", [codes, places, scales], **attributes)
    builder.output(node, "float32")
    model = builder.build()
    [expected] = results_of_onnxruntime(model, {"x": PLACES})
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": PLACES})
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("has_one_point", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_dequantized_codes(
    random_numbers: np.random.Generator, dtype: str, has_one_point: bool, axis: int
) -> None:
    """With blocks of rows the floats are made once."""
    builder = Builder(21)
    places = builder.input("int64", PLACES.shape)
    codes = drawn(random_numbers, dtype, (48, 64))
    shape = (3, 64) if axis == 0 else (48, 4)
    scales = random_numbers.random(shape, np.float32) + np.float32(0.5)
    points = drawn(random_numbers, dtype, (1, 1) if has_one_point else shape) + np.zeros(shape, np.int64)
    inputs = [add_codes(builder, "codes", dtype, codes), scales, add_codes(builder, "points", dtype, points)]
    floats = builder.node("DequantizeLinear", inputs, axis=axis, block_size=16)
    builder.output(builder.node("Gather", [floats, places]), "float32")
    model = builder.build()
    indices = PLACES % 48
    [result] = dmlcpu.InferenceSession(model).run(None, {"x": indices})
    values = (codes - points.repeat(16, axis)).astype(np.float32) * scales.repeat(16, axis)
    assert np.array_equal(result, values[indices])
    assert ("FLOAT_TABLE" in steps_of(model)) == (axis == 1)


@pytest.mark.parametrize(
    ("scales", "points"), [((50, 3), (50, 4)), ((4, 50), (50, 4)), ((50, 4), (50, 2)), ((50, 4), (49, 4))], ids=str
)
def test_shapes_that_do_not_fit(scales: tuple[int, int], points: tuple[int, int]) -> None:
    """Onnxruntime says what is wrong, if anything is."""
    builder = Builder(21)
    places = builder.input("int64", PLACES.shape)
    inputs = [add_codes(builder, "codes", "uint4", np.zeros((50, 64), np.int64)), places, np.zeros(scales, np.float32)]
    inputs.append(add_codes(builder, "points", "uint4", np.zeros(points, np.int64)))
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    builder.output(builder.node("com.microsoft.GatherBlockQuantized", inputs, **attributes), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="GatherBlockQuantized"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": PLACES})
