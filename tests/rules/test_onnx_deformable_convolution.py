"""DeformConv beside onnxruntime, as detectors look at objects of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, floats, reasons_of, steps_of
from template_checks import assert_templates_follow_the_rules

CHANNELS, OUTPUTS = 8, 12


def deformable(
    builder: Builder,
    rng: np.random.Generator,
    sizes: tuple[Any, Any],
    lengths: tuple[Any, Any],
    kernel: tuple[int, int] = (3, 3),
    images: Any = 2,
    has_mask: bool = True,
    has_bias: bool = True,
    **attributes: Any,
) -> str:
    """Of codes, by offsets and a mask that are fed."""
    parts, groups, taps = attributes.get("offset_group", 1), attributes.get("group", 1), kernel[0] * kernel[1]
    x = builder.dequantized(builder.input("uint8", (images, CHANNELS, *sizes)), 0.02, POINT)
    inputs = [x, floats(rng, (OUTPUTS, CHANNELS // groups, *kernel))]
    inputs.append(builder.input("float32", (images, 2 * parts * taps, *lengths), "offsets"))
    inputs.append(floats(rng, (OUTPUTS,)) if has_bias else "")
    inputs += [builder.input("float32", (images, parts * taps, *lengths), "mask")] if has_mask else []
    result: str = builder.node("DeformConv", inputs, kernel_shape=kernel, **attributes)
    return result


def feeds_of(rng: np.random.Generator, builder: Builder, lengths: dict[str, int] | None = None) -> dict[str, Any]:
    """Offsets of some pixels, whole ones and halves among them, so that taps are within, at borders and outside."""
    feeds: dict[str, Any] = {}
    for value in builder.inputs:
        shape = tuple(
            (lengths or {})[length.dim_param] if length.dim_param else length.dim_value
            for length in value.type.tensor_type.shape.dim
        )
        if value.name == "x":
            feeds["x"] = codes(rng, "uint8", shape)
        else:
            numbers = rng.uniform(-3, 3, shape) if value.name == "offsets" else rng.uniform(0, 1, shape)
            is_rounded = rng.random(shape) < 0.3
            feeds[value.name] = np.where(is_rounded, np.rint(numbers * 2) / 2, numbers).astype(np.float32)
    return feeds


@pytest.mark.parametrize(
    ("kernel", "lengths", "attributes"),
    [
        ((3, 3), (9, 11), {"pads": [1, 1, 1, 1]}),
        ((3, 3), (7, 9), {}),
        ((1, 1), (9, 11), {}),
        ((2, 3), (5, 6), {"strides": [2, 2], "pads": [1, 1, 0, 2]}),
        ((3, 2), (5, 9), {"dilations": [2, 3], "pads": [0, 1, 0, 0]}),
    ],
    ids=str,
)
@pytest.mark.parametrize(("has_mask", "has_bias"), [(True, True), (True, False), (False, True), (False, False)])
def test_windows(
    random_numbers: np.random.Generator, kernel: Any, lengths: Any, attributes: Any, has_mask: bool, has_bias: bool
) -> None:
    builder = Builder(19)
    given = {"has_mask": has_mask, "has_bias": has_bias, **attributes}
    builder.output(deformable(builder, random_numbers, (9, 11), lengths, kernel, **given), "float32")
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder))


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups(random_numbers: np.random.Generator, parts: int, groups: int) -> None:
    """Of weights and of offsets, each as it is."""
    builder = Builder(19)
    result = deformable(builder, random_numbers, (9, 11), (7, 9), offset_group=parts, group=groups)
    builder.output(builder.quantized(result, 0.1, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), feeds_of(random_numbers, builder), 1)
    assert {"WEIGHTED_GRID_SAMPLE", "FLOAT_PRODUCT"} <= {*steps_of(builder)}


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    """A template for one image, and one for several, for which places are repeated."""
    builder = Builder(19)
    result = deformable(builder, random_numbers, ("H", "W"), ("H", "W"), images="N", pads=[1, 1, 1, 1])
    builder.output(result, "float32")
    lengths = [{"N": n, "H": height, "W": width} for n, height, width in ((1, 6, 7), (3, 6, 7), (2, 9, 5))]
    feeds = [feeds_of(random_numbers, builder, each) for each in lengths]
    shapes = [{name: array.shape for name, array in each.items()} for each in feeds]
    assert_templates_follow_the_rules(builder.build(), shapes, 2)
    for each in feeds:
        assert_like_onnxruntime(builder.build(), each)


@pytest.mark.parametrize(
    ("lengths", "attributes", "reason"),
    [
        ((9, 9), {}, r"offsets (2, 18, 9, 9) of windows at (7, 9) places"),
        ((7, 9), {"offset_group": 3}, "operands of shapes [(2, 8, 9, 11), (12, 8, 3, 3), (2, 54, 7, 9)] in 1 groups"),
    ],
    ids=str,
)
def test_what_does_not_fit(random_numbers: np.random.Generator, lengths: Any, attributes: Any, reason: str) -> None:
    builder = Builder(19)
    builder.output(deformable(builder, random_numbers, (9, 11), lengths, **attributes), "float32")
    assert any(each.startswith(reason) for each in reasons_of(builder))


def test_floats_that_are_fed(random_numbers: np.random.Generator) -> None:
    """Whose channels are brought together first."""
    builder = Builder(19)
    inputs: list[Any] = [builder.input("float32", (2, 8, 7, 6)), floats(random_numbers, (4, 8, 2, 2))]
    inputs.append(builder.input("float32", (2, 8, 6, 5), "offsets"))
    builder.output(builder.node("DeformConv", inputs, kernel_shape=[2, 2]), "float32")
    feeds = {"x": floats(random_numbers, (2, 8, 7, 6)), "offsets": floats(random_numbers, (2, 8, 6, 5))}
    assert_like_onnxruntime(builder.build(), feeds)
    assert "COPY" in steps_of(builder)
