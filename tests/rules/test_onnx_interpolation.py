"""Cubic interpolation, and interpolation against aliasing, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes, results_of_onnxruntime

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
