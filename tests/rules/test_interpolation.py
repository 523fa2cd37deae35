"""Interpolation beside onnxruntime: linear, cubic, and against aliasing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import dmlcpu
from dmlcpu.onnx import computed_once
from onnx_cases import IMAGE, POINTS, SCALE, TYPES
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime, steps_of
from template_checks import assert_templates_follow_the_rules

SHAPE: Final = (2, 3, 13, 10)
SCALES: Final = ([1, 1, 2, 1.7], [1, 1, 0.7, 0.5], [1, 1, 1, 2.3], [1, 1, 0.21, 0.33])
MODES: Final = (("cubic", {}), ("cubic", {"antialias": 1}), ("linear", {"antialias": 1}))


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("outside", [0, 1])
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_floats(random_numbers: np.random.Generator, mode: Any, scales: Any, outside: int, coordinates: str) -> None:
    builder = Builder(18)
    inputs = [builder.input("float32", SHAPE), "", np.float32(scales)]
    options = {"coordinate_transformation_mode": coordinates, "exclude_outside": outside, "mode": mode[0], **mode[1]}
    builder.output(builder.node("Resize", inputs, **options), "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal(SHAPE, np.float32)})


@pytest.mark.parametrize("sizes", [(2, 3, 26, 21), (2, 3, 6, 10)], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_codes(random_numbers: np.random.Generator, mode: Any, sizes: Any) -> None:
    builder = Builder(18)
    value = builder.dequantized(builder.input("uint8", SHAPE), SCALE, POINTS["uint8"])
    result = builder.node("Resize", [value, "", "", np.int64(sizes)], mode=mode[0], **mode[1])
    builder.output(builder.quantized(result, SCALE, POINTS["int8"]), "int8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", SHAPE)}, 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scales", SCALES[:2], ids=str)  # of others the reference rounds lengths otherwise
@pytest.mark.parametrize(("mode", "options"), MODES, ids=str)
def test_codes_themselves(
    random_numbers: np.random.Generator, mode: str, options: Any, scales: Any, dtype: str
) -> None:
    """Sums are rounded and kept within the type, as ONNX's reference does; onnxruntime refuses them, or cuts off."""
    models = []
    for of_floats in (False, True):
        builder = Builder(18)
        x = builder.input(dtype, SHAPE)
        x = builder.node("Cast", [x], to=TensorProto.FLOAT) if of_floats else x
        value = builder.node("Resize", [x, "", np.float32(scales)], mode=mode, **options)
        builder.output(builder.quantized(value, 1, np.zeros((), dtype)) if of_floats else value, dtype)
        models.append(builder.build())
    feeds = {"x": random_numbers.choice([np.iinfo(dtype).min, np.iinfo(dtype).max], SHAPE).astype(dtype)}
    session = dmlcpu.InferenceSession(models[0])
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    [result] = session.run(None, feeds)
    np.testing.assert_array_equal(result, dmlcpu.InferenceSession(models[1]).run(None, feeds)[0])
    [expected] = ReferenceEvaluator(models[0]).run(None, feeds)
    np.testing.assert_allclose(result.astype(int), expected.astype(int), rtol=0, atol=1)


def test_other_coefficients_and_rows(random_numbers: np.random.Generator) -> None:
    builder = Builder(13)
    inputs = [builder.input("float32", SHAPE), "", np.float32([1, 1, 1.5, 1])]
    builder.output(builder.node("Resize", inputs, mode="cubic", cubic_coeff_a=-0.5), "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal(SHAPE, np.float32)})


@pytest.mark.parametrize(("mode", "options"), MODES, ids=str)
def test_signals(random_numbers: np.random.Generator, mode: str, options: Any) -> None:
    builder = Builder(18)
    value = builder.dequantized(builder.input("uint8", (2, 5, 300)), SCALE, POINTS["uint8"])
    result = builder.node("Resize", [value, "", np.float32([1, 1, 0.4])], mode=mode, **options)
    builder.output(builder.quantized(result, SCALE, POINTS["int8"]), "int8")
    session = dmlcpu.InferenceSession(builder.build())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    # onnxruntime takes images alone: a signal is one of one row.
    x = codes(random_numbers, "uint8", (2, 5, 300))
    image = Builder(18)
    value = image.dequantized(image.input("uint8", (2, 5, 1, 300)), SCALE, POINTS["uint8"])
    result = image.node("Resize", [value, "", np.float32([1, 1, 1, 0.4])], mode=mode, **options)
    image.output(image.quantized(result, SCALE, POINTS["int8"]), "int8")
    expected = results_of_onnxruntime(image.build(), {"x": x[:, :, None]})
    assert np.abs(session.run(None, {"x": x})[0].astype(int) - expected[0][:, :, 0]).max() <= 1


@pytest.mark.parametrize("sizes", [(2, 26, 21, 3), (2, 6, 4, 3)], ids=str)
def test_channels_behind(random_numbers: np.random.Generator, sizes: Any) -> None:
    builder = Builder(18)
    inputs = [builder.input("float32", (2, 13, 10, 3)), "", "", np.int64(sizes)]
    builder.output(builder.node("Resize", inputs, mode="linear", antialias=1), "float32")
    assert_like_onnxruntime(builder.build(), {"x": random_numbers.standard_normal((2, 13, 10, 3), np.float32)})


@pytest.mark.parametrize(("mode", "options"), MODES, ids=str)
def test_what_is_no_number_stays_where_it_is_read(mode: str, options: Any) -> None:
    """Outputs whose weight of it is 0 are numbers."""
    builder = Builder(18)
    inputs = [builder.input("float32", (1, 1, 24, 24)), "", np.float32([1, 1, 0.5, 0.5])]
    builder.output(builder.node("Resize", inputs, mode=mode, **options), "float32")
    x = np.ones((1, 1, 24, 24), np.float32)
    x[0, 0, 9, 13] = np.nan
    result = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})[0]
    assert 0 < np.isnan(result).sum() <= 16
    assert np.abs(result[~np.isnan(result)] - 1).max() < 1e-5


def test_axes_of_too_many_weights_are_left_to_onnxruntime() -> None:
    builder = Builder(13)
    inputs = [builder.input("float32", (1, 1, 2, 1 << 20)), "", np.int64([1, 1, 2, 1 << 19])]
    builder.output(builder.node("Resize", [*inputs[:2], "", inputs[2]], mode="cubic"), "float32")
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert part.provider == "onnxruntime"


@pytest.mark.parametrize("dtype", TYPES)
def test_interpolated_codes(random_numbers: np.random.Generator, dtype: str) -> None:
    """Resize of codes themselves: interpolated and rounded, where onnxruntime cuts off."""
    builder = Builder()
    value = builder.node("Resize", [builder.input(dtype, IMAGE), "", np.float32([1, 1, 2, 1.5])], mode="linear")
    builder.output(value, dtype)
    x = codes(random_numbers, dtype, IMAGE)
    assert_like_onnxruntime(builder.build(), {"x": x}, 1)
    [interpolated] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    builder = Builder()
    floats = builder.node("Cast", [builder.input(dtype, IMAGE)], to=1)
    floats = builder.node("Resize", [floats, "", np.float32([1, 1, 2, 1.5])], mode="linear")
    builder.output(builder.quantized(floats, 1, np.zeros((), dtype)), dtype)
    [rounded] = dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(interpolated, rounded)


@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("target", [(9, 13), (3, 2), (7, 12), (14, 6)])
@pytest.mark.parametrize("form", ["floats", "codes", "codes too", "behind a convolution", "channels last", "one row"])
def test_interpolated_floats(
    random_numbers: np.random.Generator, mode: str, target: tuple[int, int], form: str
) -> None:
    """As networks end that are quantized but for the last layers."""
    builder = Builder()
    shape = (2, 3, 9) if form == "one row" else IMAGE
    x = builder.input("float32" if form in ("floats", "one row") else "uint8", shape)
    value = x if form in ("floats", "one row") else builder.dequantized(x, SCALE, POINTS["uint8"])
    if form == "behind a convolution":
        filters = builder.dequantized(codes(random_numbers, "int8", (4, 3, 1, 1)), 0.01, np.int8(0))
        value = builder.node("Conv", [value, filters])
    if form == "channels last":
        value = builder.node("Transpose", [value], perm=[0, 2, 3, 1])
    channels = 4 if form == "behind a convolution" else 3
    sizes = [2, channels, *target] if form != "channels last" else [2, *target, channels]
    sizes = [2, 3, target[1]] if form == "one row" else sizes
    operands = [value, "", "", np.array(sizes)]
    result = builder.node("Resize", operands, mode="linear", coordinate_transformation_mode=mode)
    builder.output(result, "float32")
    if form == "codes too":
        builder.output(builder.quantized(result, SCALE, POINTS["uint8"]), "uint8")
    feed = codes(random_numbers, "uint8", shape)
    assert_like_onnxruntime(
        builder.build(), {"x": feed.astype("float32") if form in ("floats", "one row") else feed}, 1
    )


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [(4, 5), (7, 11), (26, 20), (3, 40)], ids=str)
def test_nearest_floats(random_numbers: np.random.Generator, size: Any, coordinates: str, nearest: str) -> None:
    """As they are, whatever they are: masks have infinite ones."""
    builder = Builder(17)
    inputs = [builder.input("float32", SHAPE), "", "", np.int64([*SHAPE[:2], *size])]
    options = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest, "mode": "nearest"}
    builder.output(builder.node("Resize", inputs, **options), "float32")
    feed = random_numbers.standard_normal(SHAPE, np.float32)
    feed[..., ::3] = -np.inf
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    np.testing.assert_array_equal(session.run(None, {"x": feed}), results_of_onnxruntime(model, {"x": feed}))
    assert [partition.provider for partition in session.partitions()] == ["dmlcpu"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_images_that_keep_their_size(random_numbers: np.random.Generator, mode: str, coordinates: str) -> None:
    """Whatever the scales are, nothing moves."""
    builder = Builder(17)
    inputs = [builder.input("float32", (1, 2, 4, 9)), "", np.float32([1, 1, 1.2, 1.1])]
    builder.output(builder.node("Resize", inputs, mode=mode, coordinate_transformation_mode=coordinates), "float32")
    feeds = {"x": random_numbers.standard_normal((1, 2, 4, 9), np.float32)}
    assert_like_onnxruntime(builder.build(), feeds, equal=True)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
def test_places_next_to_a_half(coordinates: str, nearest: str) -> None:
    """A place that a quotient's rounding has moved off a half counts as one, up to some width of an image."""
    options = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest, "mode": "nearest"}
    for size in (7, 13, 26, 45):
        builder = Builder(17)
        x = builder.input("float32", (1, 1, 1, size))
        for resized in range(1, 60):
            builder.output(builder.node("Resize", [x, "", "", np.int64([1, 1, 1, resized])], **options), "float32")
        model, feeds = builder.build(), {"x": np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)}
        results = dmlcpu.InferenceSession(model).run(None, feeds)
        for result, expected in zip(results, results_of_onnxruntime(model, feeds), strict=True):
            assert (result == expected).all(), (size, expected.shape)


def test_nearest_floats_of_any_size() -> None:
    """A mask brought to the size of features, as in DETR: one template is enough where as many pixels become one."""
    builder = Builder(17)
    mask, features = builder.input("float32", (1, 1, "H", "W"), "mask"), builder.input("float32", (1, 1, "h", "w"))
    sizes = builder.node("Shape", [features])
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
    resized = builder.node("Resize", [mask, "", "", sizes], **options)
    builder.output(builder.node("Add", [features, resized]), "float32")
    shapes = [
        {"mask": (1, 1, 4 * height, 4 * width), "x": (1, 1, height, width)} for height in (3, 4) for width in (5, 7)
    ]
    assert_templates_follow_the_rules(builder.build(), shapes, 1)


def test_a_table_of_positions_of_any_size(random_numbers: np.random.Generator) -> None:
    """Brought to the size of an image, as in DINOv2."""
    builder = Builder(17)
    x = builder.input("float32", (1, 8, "H", "W"))
    table = random_numbers.standard_normal((1, 8, 6, 6)).astype(np.float32)
    resized = builder.node("Resize", [table, "", "", builder.node("Shape", [x])], mode="cubic")
    builder.output(builder.node("Add", [x, resized]), "float32")
    shapes = [{"x": (1, 8, height, width)} for height in (5, 9) for width in (4, 13)]
    assert_templates_follow_the_rules(builder.build(), shapes, 1)


@pytest.mark.parametrize("mode", ["cubic", "linear", "nearest"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_table_of_positions_is_resized_once(
    random_numbers: np.random.Generator, isa: str, num_threads: int, mode: str
) -> None:
    """The constant is what a run makes of the same table where that is fed, to the bit, and no step resizes it."""
    table = random_numbers.standard_normal((1, 8, 6, 6)).astype(np.float32)
    x = random_numbers.standard_normal((2, 8, 9, 4)).astype(np.float32)
    device = dmlcpu.Device(isa=isa, num_threads=num_threads)
    results = []
    for is_fed in (False, True):
        builder = Builder(17)
        image = builder.input("float32", ("N", 8, 9, 4))
        values = builder.input("float32", (1, 8, 6, 6), "table") if is_fed else table
        lengths = [np.int64([1]), builder.node("Shape", [image], start=1)]
        resized = builder.node("Resize", [values, "", "", builder.node("Concat", lengths, axis=0)], mode=mode)
        builder.output(builder.node("Add", [image, resized]), "float32")
        session = dmlcpu.InferenceSession(builder.build(), device=device)
        results.append(session.run(None, {"x": x, **({"table": table} if is_fed else {})})[0])
        [partition] = session.partitions()
        is_constant = [step.type for step in partition.steps] == ["ELEMENT_WISE_BINARY"]
        assert is_constant != is_fed
    np.testing.assert_array_equal(*results)


def test_a_large_table_is_resized_in_each_run(monkeypatch: pytest.MonkeyPatch, random_numbers: Any) -> None:
    """A plan would hold the result."""
    monkeypatch.setattr(computed_once, "_MOST_ELEMENTS", 8 * 5 * 7 - 1)
    builder = Builder(17)
    x = builder.input("float32", (1, 8, 5, 7))
    table = random_numbers.standard_normal((1, 8, 6, 6)).astype(np.float32)
    resized = builder.node("Resize", [table, "", "", np.int64([1, 8, 5, 7])], mode="cubic")
    builder.output(builder.node("Add", [x, resized]), "float32")
    assert steps_of(builder) == ["FLOAT_INTERPOLATION", "ELEMENT_WISE_BINARY"]
    monkeypatch.undo()
    assert steps_of(builder) == ["ELEMENT_WISE_BINARY"]
