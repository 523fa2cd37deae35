"""Col2Im beside onnxruntime: patches become an image again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, floats, reasons_of, steps_of


def folded(builder: Builder, x: str, image: Any, block: Any, **attributes: Any) -> str:
    name: str = builder.node("Col2Im", [x, np.array(image), np.array(block)], **attributes)
    return name


@pytest.mark.parametrize(
    ("image", "block"), [((6, 8), (2, 2)), ((6, 8), (3, 4)), ((5, 5), (1, 1)), ((4, 6, 4), (2, 3, 1))], ids=str
)
def test_blocks(random_numbers: np.random.Generator, image: Any, block: Any) -> None:
    """Of codes the codes are moved."""
    taps, count = int(np.prod(block)), int(np.prod(image) // np.prod(block))
    builder = Builder(18)
    x = builder.dequantized(builder.input("uint8", ("N", 3 * taps, count)), 0.02, POINT)
    result = folded(builder, x, image, block, strides=block)
    builder.output(builder.quantized(result, 0.02, POINT), "uint8")
    for batch in (1, 2):
        feeds = {"x": codes(random_numbers, "uint8", (batch, 3 * taps, count))}
        assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({}, "blocks (2, 2), strides (1, 1), dilations (1, 1), which overlap or are padded"),
        ({"strides": [2, 2], "pads": [1, 1, 1, 1]}, "blocks (2, 2), strides (2, 2), dilations (1, 1), which overlap"),
        ({"strides": [2, 2], "dilations": [2, 1]}, "blocks (2, 2), strides (2, 2), dilations (2, 1), which overlap"),
    ],
    ids=str,
)
def test_what_is_left_to_onnxruntime(random_numbers: np.random.Generator, attributes: Any, reason: str) -> None:
    builder = Builder(18)
    count = {(): 15, ("strides", "pads"): 12, ("strides", "dilations"): 3}[(*attributes,)]
    x = builder.input("float32", (1, 4, count))
    builder.output(folded(builder, x, (4, 6), (2, 2), **attributes), "float32")
    assert any(each.startswith(reason) for each in reasons_of(builder))


def test_an_image_that_blocks_do_not_fill(random_numbers: np.random.Generator) -> None:
    builder = Builder(18)
    builder.output(folded(builder, builder.input("float32", (1, 4, 4)), (5, 5), (2, 2), strides=[2, 2]), "float32")
    assert "an image (5, 5) of blocks (2, 2)" in reasons_of(builder)
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 4, 4))}, native=False)


def test_patches_are_moved_alone() -> None:
    builder = Builder(18)
    x = builder.dequantized(builder.input("uint8", (1, 12, 12)), 0.02, POINT)
    builder.output(builder.quantized(folded(builder, x, (6, 8), (2, 2), strides=[2, 2]), 0.02, POINT), "uint8")
    assert {*steps_of(builder)} <= {"RESHAPE", "COPY"}
