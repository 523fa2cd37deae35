"""Cubic interpolation, and interpolation against aliasing, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes

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


def test_matrices_larger_than_images_are_left_to_onnxruntime() -> None:
    builder = Builder(13)
    inputs = [builder.input("float32", (1, 1, 2, 2100)), "", np.int64([1, 1, 2, 2000])]
    builder.output(builder.node("Resize", [*inputs[:2], "", inputs[2]], mode="cubic"), "float32")
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert part.provider == "onnxruntime"
