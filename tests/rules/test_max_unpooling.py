"""MaxUnpool beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, floats, reasons_of, results_of_onnxruntime, steps_of
from template_checks import assert_templates_follow_the_rules

Array = NDArray[Any]

# An input's shape, attributes, and the shape of the output.
FORMS: Final[Mapping[str, tuple[tuple[int, ...], dict[str, list[int]], tuple[int, ...]]]] = {
    "1-D": ((2, 3, 7), {"kernel_shape": [2], "strides": [2]}, (2, 3, 14)),
    "2-D": ((2, 3, 4, 5), {"kernel_shape": [2, 3], "strides": [2, 3]}, (2, 3, 8, 15)),
    "3-D": ((1, 2, 3, 2, 4), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, (1, 2, 6, 4, 8)),
    "overlapping": ((1, 2, 3, 3), {"kernel_shape": [3, 3], "strides": [2, 2]}, (1, 2, 7, 7)),
    "single steps": ((1, 2, 3, 3), {"kernel_shape": [2, 2]}, (1, 2, 4, 4)),
    "padded": ((1, 2, 3, 3), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}, (1, 2, 5, 6)),
}


def places_in(rng: np.random.Generator, shape: Sequence[int], output: Sequence[int]) -> Array:
    """Each in a plane of its own channel, some of them twice."""
    count, plane = int(np.prod(shape[:2])), int(np.prod(output[2:]))
    elements = int(np.prod(shape[2:]))
    places: Array = rng.integers(0, plane, (count, elements)) + plane * np.arange(count)[:, None]
    return places.reshape(tuple(shape)).astype(np.int64)


def unpooling(
    shape: Sequence[int | str],
    given: Sequence[int] | None = None,
    opset: int = 22,
    dtype: str = "float32",
    **attributes: Any,
) -> Builder:
    builder = Builder(opset)
    operands: list[Any] = [builder.input(dtype, shape), builder.input("int64", shape, "places")]
    operands += [] if given is None else [np.int64(given)]
    builder.output(builder.node("MaxUnpool", operands, **attributes), dtype)
    return builder


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [9, 11, 22])
def test_forms(random_numbers: np.random.Generator, form: str, opset: int) -> None:
    shape, attributes, output = FORMS[form]
    builder = unpooling(shape, opset=opset, **attributes)
    feeds = {"x": floats(random_numbers, shape), "places": places_in(random_numbers, shape, output)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert steps_of(builder) == ["MAX_UNPOOLING"]
    feeds["x"].reshape(-1)[:4] = [np.nan, -0.0, np.inf, 1e-40]
    [ours], [expected] = (
        dmlcpu.InferenceSession(builder.build()).run(None, feeds),
        results_of_onnxruntime(builder.build(), feeds),
    )
    assert ours.shape == output
    np.testing.assert_array_equal(ours.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("given", [(2, 3, 8, 15), (2, 3, 9, 17), (2, 3, 5, 24), (2, 3, 120, 1)], ids=str)
def test_an_output_of_a_shape(random_numbers: np.random.Generator, given: tuple[int, ...]) -> None:
    """Of no fewer elements than the windows cover, in which the indices count; some are of other channels."""
    shape, attributes, _ = FORMS["2-D"]
    builder = unpooling(shape, given, **attributes)
    feeds = {"x": floats(random_numbers, shape), "places": places_in(random_numbers, shape, given)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    feeds["places"] = random_numbers.integers(0, int(np.prod(given)), shape)
    assert_like_onnxruntime(builder.build(), feeds, equal=True)
    assert steps_of(builder) == ["MAX_UNPOOLING"]


@pytest.mark.parametrize(
    "given", [(2, 3, 8, 14), (1, 3, 8, 15), (3, 2, 8, 15), (2, 3, -8, -15), (2, 3, 0, 15)], ids=str
)
def test_shapes_that_are_refused(random_numbers: np.random.Generator, given: tuple[int, ...]) -> None:
    shape, attributes, _ = FORMS["2-D"]
    builder = unpooling(shape, given, **attributes)
    feeds = {"x": floats(random_numbers, shape), "places": np.zeros(shape, np.int64)}
    with pytest.raises((dmlcpu.BindingError, dmlcpu.InvalidModelError)):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)


@pytest.mark.parametrize("wrong", [720, -1, 1 << 40])
def test_indices_out_of_range(random_numbers: np.random.Generator, wrong: int) -> None:
    """None counts from the end, as none does in onnxruntime."""
    shape, attributes, output = FORMS["2-D"]
    session = dmlcpu.InferenceSession(unpooling(shape, **attributes).build())
    feeds = {"x": floats(random_numbers, shape), "places": places_in(random_numbers, shape, output)}
    feeds["places"][1, 1, 1, 1] = wrong
    with pytest.raises(dmlcpu.BindingError, match=rf"got index {wrong}, expected one from 0 to 719"):
        session.run(None, feeds)


def test_any_lengths(random_numbers: np.random.Generator) -> None:
    attributes = FORMS["2-D"][1]
    model = unpooling(("images", 3, "rows", "columns"), **attributes).build()
    shapes = [(2, 3, 4, 5), (1, 3, 7, 2), (4, 3, 2, 9)]
    assert_templates_follow_the_rules(model, [{"x": shape, "places": shape} for shape in shapes], 1)
    session = dmlcpu.InferenceSession(model)
    for shape in shapes:
        output = (*shape[:2], shape[2] * 2, shape[3] * 3)
        feeds = {"x": floats(random_numbers, shape), "places": places_in(random_numbers, shape, output)}
        np.testing.assert_array_equal(session.run(None, feeds), results_of_onnxruntime(model, feeds))


def test_the_shape_of_what_was_pooled(random_numbers: np.random.Generator) -> None:
    """As SegNets are exported: an image of odd lengths becomes as large again."""
    builder = Builder()
    x = builder.input("float32", ("images", 3, "rows", "columns"))
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pooled, places = builder.node("MaxPool", [x], 2, **window)
    shape = builder.node("Shape", [x])
    builder.output(builder.node("MaxUnpool", [builder.node("Neg", [pooled]), places, shape], **window), "float32")
    for shape in ((2, 3, 9, 7), (1, 3, 8, 5)):
        assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, shape)}, equal=True)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("same", [True, False], ids=["the same parameters", "others"])
@pytest.mark.parametrize("between", ["", "Neg", "Abs"])
def test_codes(random_numbers: np.random.Generator, dtype: str, same: bool, between: str) -> None:
    """They stay codes, among that of 0; a function of codes may have none that stands for 0."""
    shape, attributes, output = FORMS["2-D"]
    point = POINT if dtype == "uint8" else np.int8(-3)
    builder = Builder()
    x, places = builder.input("float32", shape), builder.input("int64", shape, "places")
    value = builder.dequantized(builder.quantized(x, 0.05, point), 0.05, point)
    value = builder.node(between, [value]) if between else value
    unpooled = builder.node("MaxUnpool", [value, places], **attributes)
    builder.output(builder.quantized(unpooled, 0.05 if same else 0.07, point), dtype)
    feeds = {"x": floats(random_numbers, shape), "places": places_in(random_numbers, shape, output)}
    assert_like_onnxruntime(builder.build(), feeds)
    assert "ELEMENT_WISE_DEQUANTIZE_LINEAR" not in steps_of(builder)


def test_codes_that_are_read_as_floats(random_numbers: np.random.Generator) -> None:
    """Codes by a zero point that their type has at its end; and floats of a table that has no 0."""
    shape, attributes, output = FORMS["2-D"]
    builder = Builder()
    codes, places = builder.input("uint8", shape), builder.input("int64", shape, "places")
    value = builder.dequantized(codes, 0.05, np.uint8(255))
    builder.output(builder.node("MaxUnpool", [value, places], **attributes), "float32")
    builder.output(builder.node("MaxUnpool", [builder.node("Exp", [value]), places], **attributes), "float32")
    feeds = {
        "x": random_numbers.integers(0, 256, shape).astype(np.uint8),
        "places": places_in(random_numbers, shape, output),
    }
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("scale", [-0.1, 0.0, -0.0])
def test_zeros_have_no_sign(random_numbers: np.random.Generator, scale: float) -> None:
    """The float of a code may be -0."""
    shape, attributes, output = FORMS["2-D"]
    builder = Builder()
    codes, places = builder.input("uint8", shape), builder.input("int64", shape, "places")
    unpooled = builder.node("MaxUnpool", [builder.dequantized(codes, scale, POINT), places], **attributes)
    builder.output(builder.node("Reciprocal", [unpooled]), "float32")
    feeds = {"x": np.full(shape, POINT + 1, np.uint8), "places": places_in(random_numbers, shape, output)}
    model = builder.build()
    [ours], [expected] = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    np.testing.assert_array_equal(ours, expected)


def test_constants(random_numbers: np.random.Generator) -> None:
    shape, attributes, output = FORMS["2-D"]
    builder = Builder()
    x, places = builder.input("float32", shape), builder.input("int64", shape, "places")
    known = builder.node("MaxUnpool", [floats(random_numbers, shape), places], **attributes)
    indices = places_in(random_numbers, shape, output)
    builder.output(known, "float32")
    builder.output(builder.node("MaxUnpool", [x, indices], **attributes), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, shape), "places": indices}, equal=True)


def test_float16_is_moved_here(random_numbers: np.random.Generator) -> None:
    """Onnxruntime has no kernel for it."""
    shape, attributes, output = FORMS["2-D"]
    builder = unpooling(shape, dtype="float16", **attributes)
    x, places = floats(random_numbers, shape), places_in(random_numbers, shape, output)
    [ours] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x.astype(np.float16), "places": places})
    [expected] = results_of_onnxruntime(unpooling(shape, **attributes).build(), {"x": x, "places": places})
    np.testing.assert_array_equal(ours, expected.astype(np.float16), strict=True)


def test_other_floats_are_left_to_others() -> None:
    shape, attributes, _ = FORMS["2-D"]
    assert reasons_of(unpooling(shape, dtype="float64", **attributes))
