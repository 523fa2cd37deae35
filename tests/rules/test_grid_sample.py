"""GridSample beside onnxruntime, as detectors look around the points that they attend to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, reasons_of
from template_checks import assert_templates_follow_the_rules


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize(
    ("version", "domain", "mode"),
    [
        (16, "", "bilinear"),
        (16, "", "nearest"),
        (20, "", "linear"),
        (20, "", "nearest"),
        (13, "com.microsoft.", "bilinear"),
        (13, "com.microsoft.", "nearest"),
    ],
    ids=str,
)
def test_grid_sample(
    random_numbers: np.random.Generator, version: int, domain: str, mode: str, padding: str, align_corners: int
) -> None:
    builder = Builder(version)
    x = builder.dequantized(builder.input("uint8", (2, 5, 9, 8)), 0.02, POINT)
    grid = builder.input("float32", (2, 6, 7, 2), "grid")
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
    builder.output(builder.node(f"{domain}GridSample", [x, grid], **attributes), "float32")
    feeds = {"x": codes(random_numbers, "uint8", (2, 5, 9, 8))}
    feeds["grid"] = random_numbers.uniform(-1.4, 1.4, (2, 6, 7, 2)).astype(np.float32)
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes(random_numbers: np.random.Generator, mode: str, padding: str, align_corners: int) -> None:
    builder = Builder(20)
    x = builder.dequantized(builder.input("uint8", (2, 3, 5, 9, 8)), 0.02, POINT)
    grid = builder.input("float32", (2, 4, 6, 7, 3), "grid")
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
    builder.output(builder.node("GridSample", [x, grid], **attributes), "float32")
    feeds = {"x": codes(random_numbers, "uint8", (2, 3, 5, 9, 8))}
    feeds["grid"] = random_numbers.uniform(-1.4, 1.4, (2, 4, 6, 7, 3)).astype(np.float32)
    assert_like_onnxruntime(builder.build(), feeds)


def test_free_lengths(random_numbers: np.random.Generator) -> None:
    builder = Builder(16)
    x, grid = builder.input("float32", ("N", 3, "H", "W")), builder.input("float32", ("N", "points", 4, 2), "grid")
    builder.output(builder.node("GridSample", [x, grid]), "float32")
    model = builder.build()
    shapes = [
        {"x": (n, 3, size, size + 2), "grid": (n, points, 4, 2)}
        for n, size, points in ((1, 5, 9), (2, 5, 9), (2, 11, 3))
    ]
    assert_templates_follow_the_rules(model, shapes, 1)
    for each in shapes:
        feeds = {name: random_numbers.uniform(-1.2, 1.2, shape).astype(np.float32) for name, shape in each.items()}
        assert_like_onnxruntime(model, feeds)


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"mode": "cubic"}, (6, 5)),
        ({"padding_mode": "reflection"}, (6, 5)),
        ({"padding_mode": "reflection"}, (4, 6, 5)),
    ],
    ids=["cubic", "reflections", "volumes"],
)
def test_what_is_left_to_onnxruntime(random_numbers: np.random.Generator, attributes: Any, shape: Any) -> None:
    builder = Builder(20)
    sizes, places = (1, 2, *shape), (1, *shape, len(shape))
    x, grid = builder.input("float32", sizes), builder.input("float32", places, "grid")
    builder.output(builder.node("GridSample", [x, grid], **attributes), "float32")
    feeds = {"x": random_numbers.uniform(-1, 1, sizes).astype(np.float32)}
    feeds["grid"] = random_numbers.uniform(-1.2, 1.2, places).astype(np.float32)
    assert_like_onnxruntime(builder.build(), feeds, native=False)
    assert {part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions()} == {"onnxruntime"}


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize(
    "lengths", [(7, 9), (33, 64), (1, 5), (5, 1), (49, 98), (4, 5, 6), (1, 3, 2), (7, 1, 1)], ids=str
)
def test_constant_grids(random_numbers: np.random.Generator, lengths: tuple[int, ...], align_corners: int) -> None:
    """Computed beforehand, with onnxruntime's bits."""
    builder = Builder(20)
    theta = random_numbers.normal(size=(2, len(lengths), len(lengths) + 1)).astype(np.float32)
    inputs = [theta, np.array([2, 3, *lengths])]
    grid = builder.node("AffineGrid", inputs, align_corners=align_corners)
    x = builder.input("float32", (1,))
    builder.output(builder.node("Mul", [x, grid]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones(1, np.float32)}, equal=True)


def test_grids_of_free_lengths(random_numbers: np.random.Generator) -> None:
    """Codes of images that are turned by one angle, of all sizes: one graph, and a template."""
    builder = Builder(20)
    x = builder.dequantized(builder.input("uint8", (1, 3, "H", "W")), 0.02, POINT)
    theta = np.float32([[[1, 0.1, 0], [-0.1, 1, 0.1]]])
    turned = builder.node("GridSample", [x, builder.node("AffineGrid", [theta, builder.node("Shape", [x])])])
    builder.output(turned, "float32")
    for shape in ((1, 3, 8, 9), (1, 3, 11, 6)):
        assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shape)})


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("lengths", [(7, 9), (1, 5), (33, 64), (4, 5, 6), (1, 3, 2)], ids=str)
def test_computed_grids(random_numbers: np.random.Generator, lengths: tuple[int, ...], align_corners: int) -> None:
    """As spatial transformers turn images by what they see in them."""
    builder = Builder(20)
    shape = (2, len(lengths), len(lengths) + 1)
    theta = builder.input("float32", shape, "theta")
    grid = builder.node("AffineGrid", [theta, np.array([2, 3, *lengths])], align_corners=align_corners)
    x = builder.dequantized(builder.input("uint8", (2, 3, *lengths)), 0.02, POINT)
    builder.output(builder.node("GridSample", [x, grid]), "float32")
    builder.output(grid, "float32")
    feeds = {"theta": random_numbers.normal(size=shape).astype(np.float32)}
    feeds["x"] = np.full((2, 3, *lengths), 200, np.uint8)
    # Where a place is rounded otherwise, only what lies at a border would be.
    feeds["theta"][..., :-1] *= 0.2
    feeds["theta"][..., -1] *= 0.05
    assert_like_onnxruntime(builder.build(), feeds)


def test_a_grid_that_is_too_large_to_be_kept() -> None:
    builder = Builder(20)
    grid = builder.node("AffineGrid", [np.ones((1, 2, 3), np.float32), np.array([1, 1, 1024, 1024])])
    builder.output(builder.node("Mul", [builder.input("float32", (1,)), grid]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": np.ones(1, np.float32)})


def test_grids_of_several_images_by_one_matrix() -> None:
    """Which AffineGrid has not."""
    builder = Builder(20)
    theta = builder.input("float32", (1, 2, 3), "theta")
    builder.output(builder.node("AffineGrid", [theta, np.array([2, 1, 4, 5])]), "float32")
    assert "a grid of size (2, 1, 4, 5) by matrices (1, 2, 3)" in reasons_of(builder)
