"""Weights that a Cast and a Mul make of codes: the bits of their floats, and operators on the codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.onnx.models.model import load_model
from float_products import product_with
from onnx_models import Builder, codes, floats, steps_of

Array = NDArray[Any]
TO_FLOAT = onnx.TensorProto.FLOAT


def scaled_codes(builder: Builder, array: Array, scale: Array, *, scale_first: bool = False) -> str:
    cast = builder.node("Cast", [array], to=TO_FLOAT)
    name: str = builder.node("Mul", [scale, cast] if scale_first else [cast, scale])
    return name


def operators_of(builder: Builder) -> list[str]:
    """The nodes that run in place of a model's."""
    return [node.operator for node in load_model(builder.build(), to_run=True).nodes]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("scale_first", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (40,), (1, 40)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products(
    random_numbers: np.random.Generator,
    dtype: str,
    shape: tuple[int, ...],
    scale_first: bool,
    num_threads: int,
    isa: str,
) -> None:
    builder = Builder(17)
    x, array = floats(random_numbers, (3, 67)), codes(random_numbers, dtype, (67, 40))
    scale = np.asarray(random_numbers.random(shape, np.float32) + np.float32(0.5))
    weights = scaled_codes(builder, array, scale, scale_first=scale_first)
    builder.output(builder.node("MatMul", [builder.input("float32", x.shape), weights]), "float32")
    assert steps_of(builder) == ["DEQUANTIZED_PRODUCT"]
    device = dmlcpu.Device(isa=isa, num_threads=num_threads)
    [result] = dmlcpu.InferenceSession(builder.build(), device=device).run(None, {"x": x})
    assert np.array_equal(result, product_with(array.astype(np.float32) * scale, x))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("rows", [50, 8738, 8739])
@pytest.mark.parametrize("along", ["all", "rows", "columns"])
def test_rows(random_numbers: np.random.Generator, along: str, rows: int, dtype: str) -> None:
    """Of large matrices with a scale for each they are chosen before they are dequantized."""
    builder = Builder(17)
    array = codes(random_numbers, dtype, (rows, 30))
    shape = {"all": (), "rows": (rows, 1), "columns": (30,)}[along]
    scale = np.asarray(random_numbers.random(shape, np.float32) + np.float32(0.5))
    places = builder.input("int64", ("rows", 3))
    builder.output(builder.node("Gather", [scaled_codes(builder, array, scale), places]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for indices in (np.array([[1, -2, rows - 1], [0, 1, 7]]), np.array([[rows - 1, 0, -rows]])):
        [result] = session.run(None, {"x": indices})
        assert np.array_equal(result, (array.astype(np.float32) * scale)[indices])
    is_large = rows * 30 >= 1 << 18
    assert (steps_of(builder) != ["GATHER"]) == (along == "all" or (along == "rows" and is_large))


@pytest.mark.parametrize("has_one_point", [False, True])
def test_rows_with_zero_points(random_numbers: np.random.Generator, has_one_point: bool) -> None:
    builder = Builder(17)
    array = codes(random_numbers, "int8", (512, 512))
    points = np.full(512, 5, np.int8) if has_one_point else codes(random_numbers, "int8", (512,))
    scale = random_numbers.random(512, np.float32) + np.float32(0.5)
    whole = builder.node("DequantizeLinear", [array, scale, points], axis=0)
    builder.output(builder.node("Gather", [whole, builder.input("int64", (4,))]), "float32")
    indices = np.array([3, -1, 0, 511])
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": indices})
    differences = array.astype(np.float32) - points.astype(np.float32)[:, None]
    assert np.array_equal(result, (differences * scale[:, None])[indices])
    assert "FLOAT_TABLE" in steps_of(builder)


@pytest.mark.parametrize("is_of_codes", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_filters(random_numbers: np.random.Generator, axis: int, is_of_codes: bool) -> None:
    shape = [1, 1, 1, 1]
    array = codes(random_numbers, "int8", (8, 4, 3, 5))
    shape[axis] = array.shape[axis]
    scale = random_numbers.random(shape, np.float32) + np.float32(0.5)
    x = codes(random_numbers, "uint8", (1, 4, 9, 9)) if is_of_codes else floats(random_numbers, (1, 4, 9, 9))
    results = []
    for is_written_out in (False, True):
        builder = Builder(17)
        value = builder.input(x.dtype.name, x.shape)
        value = builder.dequantized(value, 0.02, np.uint8(120)) if is_of_codes else value
        filters: Any = array.astype(np.float32) * scale if is_written_out else scaled_codes(builder, array, scale)
        builder.output(builder.node("Conv", [value, filters]), "float32")
        session = dmlcpu.InferenceSession(builder.build())
        assert [part.provider for part in session.partitions()] == ["dmlcpu"]
        results += session.run(None, {"x": x})
    if is_of_codes and axis == 0:  # a product of codes, whose sums are exact
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-3)
    else:
        assert np.array_equal(*results)


@pytest.mark.parametrize("transposes", [False, True])
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_matrices_beside_codes(random_numbers: np.random.Generator, along: str, transposes: bool) -> None:
    """Products of codes have a scale for each column; of others the floats are taken."""
    x, array = codes(random_numbers, "uint8", (3, 20)), codes(random_numbers, "int8", (20, 7))
    scale = random_numbers.random((20, 1) if along == "rows" else (1, 7), np.float32) + np.float32(0.5)
    builder = Builder(17)
    value = builder.dequantized(builder.input("uint8", x.shape), 0.02, np.uint8(120))
    operands = (array.T, scale.T) if transposes else (array, scale)
    weights = scaled_codes(builder, *map(np.ascontiguousarray, operands))
    builder.output(builder.node("Gemm", [value, weights], transB=int(transposes)), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    assert ("FLOAT_PRODUCT" in steps_of(builder)) == (along == "rows")
    [result] = session.run(None, {"x": x})
    exact = ((x.astype(np.float64) - 120) * np.float32(0.02)) @ (array.astype(np.float64) * scale)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("operator", ["Add", "Tanh", "Mod"])
def test_constants_made_of_them(random_numbers: np.random.Generator, operator: str, moves: bool) -> None:
    """Opening the model makes them, as of any constants."""
    array, scale = codes(random_numbers, "int8", (6, 4)), floats(random_numbers, (1, 4))
    builder = Builder(17)
    weights = scaled_codes(builder, array, scale)
    if moves:
        weights = builder.node("Transpose", [builder.node("Transpose", [weights])])
    if operator == "Tanh":
        weights = builder.node("Tanh", [weights])
    else:
        attributes = {"fmod": 1} if operator == "Mod" else {}
        weights = builder.node(operator, [weights, np.float32(0.7)], **attributes)
    builder.output(builder.node("MatMul", [builder.input("float32", (3, 6)), weights]), "float32")
    assert "DequantizeLinear" not in operators_of(builder)
    assert steps_of(builder) == ["FLOAT_PRODUCT"]


@pytest.mark.parametrize("scale", [np.inf, np.nan, 3e38], ids=str)
def test_scales_that_make_no_numbers(scale: float) -> None:
    """They are floats as the model has them, of which products of codes know nothing."""
    builder = Builder(17)
    weights = scaled_codes(builder, np.int8([[1, 0], [2, -3]]), np.float32(scale))
    builder.output(builder.node("MatMul", [builder.input("float32", (1, 2)), weights]), "float32")
    assert operators_of(builder) == ["Cast", "Mul", "MatMul"]


def test_weights_without_elements() -> None:
    builder = Builder(17)
    weights = scaled_codes(builder, np.zeros((0, 4), np.int8), np.float32(0.5))
    builder.output(builder.node("MatMul", [builder.input("float32", (3, 0)), weights]), "float32")
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.zeros((3, 0), np.float32)})
    assert np.array_equal(result, np.zeros((3, 4), np.float32))


@pytest.mark.parametrize(
    ("opset", "codes_shape", "scale_shape", "operators"),
    [
        (17, (6, 4), (1, 4), ["DequantizeLinear"]),
        (12, (6, 4), (1, 4), ["Cast", "Mul"]),  # no scales along an axis yet
        (12, (6, 4), (1, 1), ["DequantizeLinear"]),
        (9, (6, 4), (1, 1), ["Cast", "Mul"]),  # nor the operator
        (17, (6, 4), (6, 4), ["Cast", "Mul"]),
        (17, (6, 4), (2, 6, 4), ["Cast", "Mul"]),
        (17, (6, 1), (1, 4), ["Cast", "Mul"]),  # the codes are repeated
        (17, (6, 4), (1, 1, 4), ["Cast", "Mul"]),
        (17, (6, 4), (1, 1, 1), ["Cast", "Mul"]),  # an axis more
        (17, (4,), (1,), ["Cast", "Mul"]),  # no weights
    ],
    ids=str,
)
def test_forms(
    random_numbers: np.random.Generator,
    opset: int,
    codes_shape: tuple[int, ...],
    scale_shape: tuple[int, ...],
    operators: list[str],
) -> None:
    builder = Builder(opset)
    array, scale = codes(random_numbers, "int8", codes_shape), floats(random_numbers, scale_shape)
    x = floats(random_numbers, (6, 4))
    floats_of_codes = scaled_codes(builder, array, scale)
    builder.output(builder.node("Add", [floats_of_codes, builder.input("float32", (6, 4))]), "float32")
    assert operators_of(builder) == [*operators, "Add"]
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    assert np.array_equal(result, array.astype(np.float32) * scale + x)


@pytest.mark.parametrize("reader", ["node", "caller", "branch"])
def test_floats_that_others_read(random_numbers: np.random.Generator, reader: str) -> None:
    """The Cast stays for them, and with it the Mul."""
    builder = Builder(17)
    array, scale = codes(random_numbers, "int8", (6, 4)), floats(random_numbers, (1, 4))
    cast = builder.node("Cast", [array], to=TO_FLOAT)
    x = builder.input("float32", (6, 4))
    builder.output(builder.node("Add", [builder.node("Mul", [cast, scale]), x]), "float32")
    expected = [array.astype(np.float32) * scale + np.float32(1)]
    if reader == "node":
        builder.output(builder.node("Sub", [x, cast]), "float32")
        expected.append(np.float32(1) - array)
    elif reader == "caller":
        builder.output(cast, "float32")
        expected.append(array.astype(np.float32))
    else:
        condition = builder.input("bool", (), "condition")
        branches = {}
        for name, operator in (("then_branch", "Add"), ("else_branch", "Sub")):
            branch = Builder(17, name)
            branch.output(branch.node(operator, [x, cast]), "float32")
            branches[name] = branch.graph()
        builder.output(builder.node("If", [condition], **branches), "float32")
        expected.append(np.float32(1) + array)
    assert "DequantizeLinear" not in operators_of(builder)
    feeds: dict[str, Array] = {"x": np.ones((6, 4), np.float32)}
    feeds |= {"condition": np.array(True)} if reader == "branch" else {}
    results = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    for result, values in zip(results, expected, strict=True):
        assert np.array_equal(result, values)
