"""Choices between codes in one node, and triangles of matrices, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, steps_of
from template_checks import assert_templates_follow_the_rules

SCORES: Final = (2, 3, 5, 5)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("form", ["computed", "constant", "one point", "known mask", "settled", "all known"])
@pytest.mark.parametrize("of_result", [0.2, 0.1])
def test_choices_of_codes(random_numbers: np.random.Generator, of_result: float, form: str, dtype: str) -> None:
    """QLinearWhere: each operand becomes codes of the result by itself."""
    builder, feeds = Builder(), {}
    mask: Any = random_numbers.integers(0, 2, (2, 1, 1, 5)) == (1 if form != "settled" else 2)
    if form in ("computed", "constant", "one point"):
        feeds["mask"] = mask
        mask = builder.input("bool", mask.shape, "mask")
    operands = []
    for name, shape in (("x", SCORES), ("y", SCORES if form != "one point" else ())):
        value: Any = codes(random_numbers, dtype, shape)
        if form != "all known" and (name == "x" or form not in ("constant", "one point")):
            feeds[name] = value
            value = builder.input(dtype, shape, name)
        operands.append(value)
    points = [np.array(point, dtype) for point in (7, 90, 33)]
    x, y = operands
    scales = [np.float32(scale) for scale in (0.1, 0.07, of_result)]
    inputs = [mask, x, scales[0], points[0], y, scales[1], points[1], scales[2], points[0 if of_result == 0.1 else 2]]
    builder.output(builder.node("com.microsoft.QLinearWhere", inputs), dtype)
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


def test_choices_of_codes_between_products(random_numbers: np.random.Generator) -> None:
    """As onnxruntime's tools write them: one graph, in codes throughout, whatever the lengths."""
    builder, scale, point = Builder(), np.float32(0.03), np.uint8(120)
    value: str = builder.quantized(builder.input("float32", ("rows", 8)), scale, point)
    mask = builder.node("Unsqueeze", [builder.input("bool", ("rows",), "mask"), np.array([1])])

    def product(value: str) -> str:
        weights = [codes(random_numbers, "int8", (8, 8)), np.float32(0.01), np.int8(0)]
        result: str = builder.node("QLinearMatMul", [value, scale, point, *weights, scale, point])
        return result

    operands = [mask, product(value), scale, point, np.uint8(3), np.float32(0.02), np.uint8(0), scale, point]
    value = product(builder.node("com.microsoft.QLinearWhere", operands))
    builder.output(value, "uint8")
    for rows in (3, 5):
        x = random_numbers.normal(0, 1, (rows, 8)).astype(np.float32)
        assert_like_onnxruntime(builder.build(), {"x": x, "mask": random_numbers.random(rows) < 0.5}, 1)


SHAPES: Final = ((5, 5), (2, 4, 7), (2, 1, 7, 4), (1, 1))


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype == "float32":
        return rng.normal(0, 1, shape).astype(dtype)
    return rng.random(shape) < 0.5 if dtype == "bool" else codes(rng, dtype, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("upper", [None, 0, 1])
@pytest.mark.parametrize("diagonal", [None, 0, -2, 3, 40, -(2**63), 2**63 - 1])
def test_triangles(random_numbers: np.random.Generator, shape: tuple[int, ...], upper: Any, diagonal: Any) -> None:
    builder = Builder()
    inputs = [builder.node("Neg", [builder.input("float32", shape)])]
    inputs += [] if diagonal is None else [np.array(diagonal)]
    attributes = {} if upper is None else {"upper": upper}
    builder.output(builder.node("Trilu", inputs, **attributes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": values(random_numbers, "float32", shape)}, equal=True)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "float32"])
@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_of_other_types(random_numbers: np.random.Generator, upper: int, dtype: str) -> None:
    builder = Builder()
    x = builder.node("Transpose", [builder.input(dtype, (4, 2, 5))])
    builder.output(builder.node("Trilu", [x, np.array(1)], upper=upper), dtype)
    assert_like_onnxruntime(builder.build(), {"x": values(random_numbers, dtype, (4, 2, 5))}, equal=True)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_of_codes(random_numbers: np.random.Generator, upper: int, dtype: str) -> None:
    """Of integers, of which onnxruntime has no kernel: what is left out is the code 0."""
    builder = Builder()
    x = builder.node("Transpose", [builder.input(dtype, (4, 2, 5))])
    builder.output(builder.node("Trilu", [x, np.array(1)], upper=upper), dtype)
    feed = codes(random_numbers, dtype, (4, 2, 5))
    session = dmlcpu.InferenceSession(builder.build())
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]
    assert np.array_equal(session.run(None, {"x": feed})[0], (np.triu if upper else np.tril)(feed.T, 1))


@pytest.mark.parametrize("scale", [0.05, 0.08])
def test_triangles_of_what_is_quantized(random_numbers: np.random.Generator, scale: float) -> None:
    """Codes, of whatever lengths: what is left out is the code of 0."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, "rows", "columns")), 0.05, POINT)
    result = builder.node("Trilu", [x, np.array(-1)], upper=0)
    builder.output(builder.quantized(result, scale, POINT if scale == 0.05 else np.uint8(3)), "uint8")
    for shape in ((2, 4, 6), (2, 7, 3), (2, 9, 9)):
        assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)}, equal=True)
    [partition] = dmlcpu.InferenceSession(builder.build()).partitions({"x": (2, 4, 6)})
    steps = {step.type for step in partition.steps}
    assert steps == ({"ELEMENT_WISE_IF"} if scale == 0.05 else {"CODE_TABLE", "ELEMENT_WISE_IF"})


def test_triangles_by_lengths(random_numbers: np.random.Generator) -> None:
    """The diagonal of a decoder's mask follows from how many tokens came before; all layers have one mask."""
    builder = Builder()
    x = builder.input("float32", (2, "rows", "columns"))
    rows, columns = (builder.node("Gather", [builder.node("Shape", [x]), np.array(axis)]) for axis in (1, 2))
    diagonal = builder.node("Sub", [columns, rows])
    for function in ("Neg", "Abs"):
        builder.output(builder.node("Trilu", [builder.node(function, [x]), diagonal], upper=0), "float32")
    for shape in ((2, 4, 6), (2, 1, 7), (2, 9, 9), (2, 5, 5)):
        assert_like_onnxruntime(builder.build(), {"x": values(random_numbers, "float32", shape)}, equal=True)


@pytest.mark.parametrize("diagonal", ["computed", "none"])
def test_triangles_that_run_elsewhere(random_numbers: np.random.Generator, diagonal: str) -> None:
    """A diagonal that is fed."""
    builder = Builder()
    x = builder.node("Neg", [builder.input("float32", (4, 5))])
    feeds = {"x": values(random_numbers, "float32", (4, 5))}
    if diagonal == "computed":
        feeds["diagonal"] = np.array(1)
        builder.output(builder.node("Trilu", [x, builder.input("int64", (), "diagonal")]), "float32")
    else:
        builder.output(builder.node("Trilu", [x, ""]), "float32")
    assert_like_onnxruntime(builder.build(), feeds, native=diagonal == "none", equal=True)


@pytest.mark.parametrize("form", ["constant", "coded constant", "same codes", "other codes", "no code"])
@pytest.mark.parametrize("is_first", [True, False])
def test_codes_are_chosen_once(random_numbers: np.random.Generator, form: str, is_first: bool) -> None:
    """For all who read the result, however each quantizes it; where the other value is one of the codes, too."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (4, 6)), 0.02, np.uint8(30))
    other: Any = np.float32({"constant": 0, "no code": 0.017}.get(form, 0))
    if form == "coded constant":
        other = builder.dequantized(np.uint8([7]), 0.5, np.uint8(7))
    elif "codes" in form:
        point = np.uint8(30 if form == "same codes" else 31)
        other = builder.dequantized(builder.input("uint8", (4, 6), "given"), 0.02, point)
    values = [x, other] if is_first else [other, x]
    result = builder.node("Where", [random_numbers.integers(0, 2, (4, 1)).astype(np.bool_), *values])
    for scale in (0.019, 0.021, 0.03):
        builder.output(builder.quantized(result, scale, np.uint8(5)), "uint8")
    names = ("x", "given") if "codes" in form else ("x",)
    feeds = {name: codes(random_numbers, "uint8", (4, 6)) for name in names}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    once = form in ("constant", "coded constant", "same codes")
    assert steps_of(builder).count("ELEMENT_WISE_IF") == (1 if once else 3)


def test_a_constant_that_follows_from_lengths() -> None:
    """That it is one element is a decision, as everywhere."""
    builder = Builder()
    x = builder.input("float32", ("N", "T"))
    value = builder.dequantized(builder.quantized(x, 0.05, np.uint8(128)), 0.05, np.uint8(128))
    other = builder.dequantized(np.array([[140]], np.uint8), 0.05, np.uint8(128))
    other = builder.node("Expand", [other, builder.node("Shape", [x])])
    builder.output(builder.node("Where", [builder.node("Greater", [x, np.float32(0)]), value, other]), "float32")
    assert_templates_follow_the_rules(builder.build(), [{"x": (2, 4)}, {"x": (1, 1)}, {"x": (3, 5)}], 2)


def test_infinity_is_no_code() -> None:
    """Of a scale whose products overflow some code's float is infinite, too; who reckons with it has another number."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (1, 1, 2, 2)), 1e38, np.uint8(128))
    chosen = builder.node("Where", [np.eye(2, dtype=np.bool_), x, np.float32(np.inf)])
    builder.output(builder.quantized(chosen, 1e38, np.uint8(128)), "uint8")
    assert steps_of(builder)[-1] == "ELEMENT_WISE_IF"  # among codes of the result
    [result] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.full((1, 1, 2, 2), 130, np.uint8)})
    assert result.tolist() == [[[[130, 255], [255, 130]]]]
