"""What models compute of token numbers and masks, beside onnxruntime: comparisons, choices, sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.errors import BindingError
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of

Array = NDArray[Any]

BOOL, FLOAT, INT32, INT64, UINT8 = 9, 1, 6, 7, 2


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("divisor", ["a number", "a row", "computed"])
@pytest.mark.parametrize(("operator", "attributes"), [("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})])
def test_quotients_and_rests(
    random_numbers: np.random.Generator, operator: str, attributes: dict[str, int], divisor: str, dtype: str
) -> None:
    builder = Builder()
    limits = np.iinfo(dtype)
    a = random_numbers.integers(-99, 100, (8, 7)).astype(dtype)
    a[0] = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, -1, 1]
    row = np.array([3, -3, 1, 7, -100, limits.max, limits.min + 1], dtype)
    given = {"a number": np.array(-5, dtype), "a row": row, "computed": random_numbers.permutation(row)}[divisor]
    feeds = {"x": a, "y": given} if divisor == "computed" else {"x": a}
    b = builder.input(dtype, given.shape, "y") if divisor == "computed" else given
    builder.output(builder.node(operator, [builder.input(dtype, a.shape), b], **attributes), dtype)
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("operator", ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
def test_bits(random_numbers: np.random.Generator, operator: str, dtype: str) -> None:
    """As those of hashes."""
    builder, limits = Builder(18), np.iinfo(dtype)
    operands = [builder.input(dtype, (8, 7))]
    if operator != "BitwiseNot":
        operands.append(builder.input(dtype, (7,), "y"))
    builder.output(builder.node(operator, operands), dtype)
    feeds = {
        name: random_numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        for name, shape in {"x": (8, 7), "y": (7,)}.items()
    }
    assert_like_onnxruntime(builder.build(), {name: feeds[name] for name in operands})


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_bits_of_other_integers(random_numbers: np.random.Generator, dtype: str) -> None:
    builder = Builder(18)
    x = builder.input(dtype, (8, 7))
    builder.output(builder.node("BitwiseXor", [builder.node("BitwiseNot", [x]), x]), dtype)
    feeds = {"x": random_numbers.integers(0, 100, (8, 7), dtype)}
    assert_like_onnxruntime(builder.build(), feeds, native=False)


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_a_divisor_of_zero_does_not_end_the_process(operator: str) -> None:
    builder = Builder()
    operands = [builder.input("int32", (4,)), builder.input("int32", (4,), "y")]
    builder.output(builder.node(operator, operands), "int32")
    lowest = np.iinfo(np.int32).min
    feeds = {"x": np.int32([5, 0, lowest, lowest]), "y": np.int32([0, 0, 0, -1])}
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
    assert result.tolist() == [0, 0, 0, lowest if operator == "Div" else 0]


@pytest.mark.parametrize("batch", [3, "batch"])
def test_integers_of_either_type_of_c(random_numbers: np.random.Generator, batch: int | str) -> None:
    """numpy has two numbers for INT64; arrays that onnxruntime returns have the other one."""
    builder = Builder()
    rows = random_numbers.normal(0, 1, (5, 3)).astype(np.float32)
    builder.output(builder.node("Gather", [rows, builder.input("int64", [batch])]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for dtype in ("l", "q"):
        for _ in range(3):
            [result] = session.run(None, {"x": np.array([4, 0, -2], dtype)})
            np.testing.assert_array_equal(result, rows[[4, 0, -2]])


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("transposes", [False, True])
def test_numbers_without_axes(dtype: str, transposes: bool) -> None:
    """A rate as a vector of one, that one of it, and what has no axes in another order."""
    builder = Builder()
    row = builder.node("Reshape", [builder.input(dtype, []), np.array([-1])])
    number = builder.node("Gather", [row, np.array(0)])
    builder.output(builder.node("Transpose", [number]) if transposes else number, dtype)
    builder.output(builder.node("Equal", [number, np.array(16000, dtype)]), "bool")
    for rate in (8000, 16000):
        assert_like_onnxruntime(builder.build(), {"x": np.array(rate, dtype)}, equal=True)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("operator", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons(random_numbers: np.random.Generator, dtype: str, operator: str) -> None:
    builder = Builder()
    x, y = builder.input(dtype, (3, 1, 5)), builder.input(dtype, (4, 5), "y")
    builder.output(builder.node(operator, [x, y]), "bool")
    builder.output(builder.node("Not", [builder.node(operator, [x, np.array(1, dtype)])]), "bool")
    feeds = {"x": random_numbers.integers(0, 3, (3, 1, 5)).astype(dtype)}
    feeds["y"] = random_numbers.integers(0, 3, (4, 5)).astype(dtype)
    if dtype == "float32":
        feeds["x"][0, 0, :2] = np.nan
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert set(steps_of(builder)) == {"ELEMENT_WISE_LOGICAL"}


@pytest.mark.parametrize("operator", ["And", "Or", "Xor"])
def test_conditions(random_numbers: np.random.Generator, operator: str) -> None:
    """BOOL as inputs, as constants and as outputs."""
    builder = Builder()
    x, y = builder.input("bool", (3, 4, 5)), builder.input("bool", (4, 5), "y")
    both = builder.node(operator, [x, y])
    builder.output(both, "bool")
    builder.output(builder.node(operator, [np.array([[[True]], [[False]], [[True]]]), y]), "bool")
    builder.output(builder.node("Cast", [both], to=FLOAT), "float32")
    builder.output(builder.node("Cast", [builder.node("Not", [x])], to=INT64), "int64")
    feeds = {"x": random_numbers.random((3, 4, 5)) < 0.5, "y": random_numbers.random((4, 5)) < 0.5}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_conditions_of_every_run(random_numbers: np.random.Generator) -> None:
    """A run like the one before takes BOOL, not bytes, and returns BOOL."""
    builder = Builder()
    builder.output(builder.node("Not", [builder.input("bool", (4, 5))]), "bool")
    session = dmlcpu.InferenceSession(builder.build())
    for _ in range(3):
        feed = random_numbers.random((4, 5)) < 0.5
        [result] = session.run(None, {"x": feed})
        np.testing.assert_array_equal(result, ~feed)
        assert result.dtype == np.bool_
        with pytest.raises(BindingError, match="got uint8"):
            session.run(None, {"x": feed.view(np.uint8)})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Max", "Min"])
def test_arithmetic(random_numbers: np.random.Generator, dtype: str, operator: str) -> None:
    """Sums and products wrap."""
    limits = np.iinfo(dtype)
    builder = Builder()
    x, y = builder.input(dtype, (3, 1, 5)), builder.input(dtype, (4, 5), "y")
    builder.output(builder.node(operator, [x, y]), dtype)
    builder.output(builder.node(operator, [np.array(7, dtype), x]), dtype)
    feeds = {"x": random_numbers.integers(limits.min, limits.max, (3, 1, 5), dtype)}
    feeds["y"] = random_numbers.integers(limits.min, limits.max, (4, 5), dtype)
    with np.errstate(all="ignore"):
        results = dmlcpu.InferenceSession(builder.build()).run(None, feeds)
        function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
        np.testing.assert_array_equal(results[0], function[operator](feeds["x"], feeds["y"]))
        np.testing.assert_array_equal(results[1], function[operator](np.array(7, dtype), feeds["x"]))
    assert set(steps_of(builder)) == {"ELEMENT_WISE_BINARY"}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *[("int64", to) for to in (FLOAT, INT32, BOOL)],
        *[("int32", to) for to in (FLOAT, INT64, BOOL)],
        *[("bool", to) for to in (FLOAT, INT32, INT64)],
        *[("float32", to) for to in (INT32, INT64, BOOL)],
        ("uint8", INT64),
        ("int8", INT64),
    ],
)
def test_casts(random_numbers: np.random.Generator, source: str, target: int) -> None:
    builder = Builder()
    x = builder.input(source, (4, 33))
    dtypes = {FLOAT: "float32", INT32: "int32", INT64: "int64", BOOL: "bool"}
    builder.output(builder.node("Cast", [x], to=target), dtypes[target])
    if source == "bool":
        feed = random_numbers.random((4, 33)) < 0.5
    elif source == "float32":
        feed = random_numbers.normal(0, 1e6, (4, 33)).astype(source)
    else:
        limits = np.iinfo(source)
        feed = random_numbers.integers(limits.min, limits.max, (4, 33), source)
    feed[0, :9] = 0
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    assert len(steps_of(builder)) == 1


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("options", [{}, {"keepdims": 0}, {"select_last_index": 1}], ids=str)
@pytest.mark.parametrize("form", ["floats", "int32", "int64", "codes", "falling"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_places_of_extremes(
    random_numbers: np.random.Generator, operator: str, options: Mapping[str, int], form: str, axis: int
) -> None:
    """Of codes, where they have the floats' order: with a scale below 0 they have not."""
    builder = Builder()
    dtype = {"floats": "float32", "int32": "int32", "int64": "int64"}.get(form, "uint8")
    x = builder.input(dtype, (3, 5, 7))
    feed = random_numbers.integers(0, 9, (3, 5, 7))
    value = x if dtype != "uint8" else builder.dequantized(x, -0.1 if form == "falling" else 0.1, np.uint8(3))
    builder.output(builder.node(operator, [value], axis=axis, **options), "int64")
    feeds = {"x": feed.astype(dtype)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    steps = steps_of(builder)
    assert ("ELEMENT_WISE_DEQUANTIZE_LINEAR" in steps) == (form == "falling")
    assert operator.upper() in steps


SCORES = (2, 3, 5, 5)


def chosen(builder: Builder, form: str, mask: str, scores: Sequence[str]) -> str:
    operands: Any = [mask, scores[0], np.float32(-1e4)]
    if form == "other way":
        operands = [mask, np.float32(-1e4), scores[0]]
    if form == "two":
        operands = [mask, *scores]
    result: str = builder.node("Where", operands)
    return result


@pytest.mark.parametrize("form", ["one", "other way", "two"])
@pytest.mark.parametrize("quantized", [False, True])
def test_choices(random_numbers: np.random.Generator, form: str, quantized: bool) -> None:
    builder = Builder()
    mask = builder.node("Cast", [builder.input("int64", (2, 1, 1, 5), "mask")], to=BOOL)
    feeds = {"mask": random_numbers.integers(0, 2, (2, 1, 1, 5))}
    scores = []
    for name in ("x", "y") if form == "two" else ("x",):
        feeds[name] = codes(random_numbers, "uint8", SCORES)
        scores.append(builder.dequantized(builder.input("uint8", SCORES, name), 0.1, np.uint8(7)))
    result = chosen(builder, form, mask, scores)
    builder.output(builder.quantized(result, 0.2, np.uint8(200)) if quantized else result, "float32")
    if quantized:
        builder.outputs[-1].type.tensor_type.elem_type = UINT8
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    steps = steps_of(builder)
    assert steps.count("ELEMENT_WISE_IF") == 1
    assert not quantized or set(steps) == {"ELEMENT_WISE_LOGICAL", "CODE_TABLE", "ELEMENT_WISE_IF"}


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_choices_that_are_known(random_numbers: np.random.Generator, condition: bool, wide: bool) -> None:
    """Nothing is computed, unless the condition has axes that the chosen operand has not."""
    builder = Builder()
    x, y = builder.input("float32", (3, 4)), builder.input("float32", (3, 4), "y")
    mask = np.full((2, 3, 4) if wide else (4,), condition)
    builder.output(builder.node("Neg", [builder.node("Where", [mask, x, y])]), "float32")
    feeds = {name: random_numbers.normal(0, 1, (3, 4)).astype(np.float32) for name in ("x", "y")}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert ("ELEMENT_WISE_IF" in steps_of(builder)) == wide


@pytest.mark.parametrize("quantized", [False, True])
def test_nan_is_replaced(random_numbers: np.random.Generator, quantized: bool) -> None:
    """As behind a softmax of a row that is masked altogether; codes have no NaN."""
    builder = Builder()
    x = builder.input("uint8" if quantized else "float32", (3, 4))
    value = builder.dequantized(x, 0.1, np.uint8(7)) if quantized else x
    result = builder.node("Where", [builder.node("IsNaN", [value]), np.float32(0), value])
    builder.output(builder.quantized(result, 0.1, np.uint8(7)) if quantized else result, "float32")
    feed: Array = codes(random_numbers, "uint8", (3, 4))
    if quantized:
        builder.outputs[-1].type.tensor_type.elem_type = UINT8
    else:
        feed = np.where(feed % 2, np.float32(np.nan), feed.astype(np.float32))
    assert_like_onnxruntime(builder.build(), {"x": feed}, equal=True)
    if quantized:
        assert dmlcpu.InferenceSession(builder.build()).partitions() == []
    else:
        assert steps_of(builder) == ["ELEMENT_WISE_LOGICAL", "ELEMENT_WISE_IF"]


def test_conditions_between_parts(random_numbers: np.random.Generator) -> None:
    """BOOL and INT64 values that onnxruntime makes of native ones, and the other way round."""
    builder = Builder()
    x = builder.input("int64", (3, 4))
    even = builder.node("Equal", [builder.node("Mod", [x, np.array(2)]), np.array(0)])
    count = builder.node("Mod", [builder.node("Cast", [builder.node("Not", [even])], to=INT64), np.array(5)])
    builder.output(builder.node("And", [builder.node("Not", [even]), builder.node("Greater", [count, x])]), "bool")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.integers(-3, 9, (3, 4))}, equal=True, native=False)


def test_cubes(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    x = builder.input("float32", (3, 50))
    builder.output(builder.node("Pow", [x, np.float32(3)]), "float32")
    feed = random_numbers.normal(0, 3, (3, 50)).astype(np.float32)
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": feed})
    np.testing.assert_array_equal(result, feed * feed * feed)
    assert_like_onnxruntime(builder.build(), {"x": feed})
