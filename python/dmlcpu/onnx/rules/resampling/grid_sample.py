"""GridSample of images and volumes: the nearest elements, or between four or eight of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.dtypes import FLOAT32
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.operands import computed, present
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]

# As they were called before operators of version 20, and since; of GRID_SAMPLE's numbers.
_INTERPOLATIONS: Final = {b"nearest": 0, b"bilinear": 1, b"linear": 1}
_PADDINGS: Final = {b"zeros": 0, b"border": 1}


def grid_sample(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """GridSample, neither cubic nor with reflections."""
    mode, padding = node.attributes.get("mode", b"linear"), node.attributes.get("padding_mode", b"zeros")
    if mode not in _INTERPOLATIONS or padding not in _PADDINGS:
        raise NotNative(f"mode {mode!r} with padding {padding!r}")
    x, grid = (computed(lowering, present(value)) for value in inputs)
    if x.dtype != FLOAT32 or grid.dtype != FLOAT32 or not 4 <= len(x.shape) == len(grid.shape) <= 5:
        raise NotNative(f"an image {x.dtype} {x.shape} by a grid {grid.dtype} {grid.shape}")
    if grid.shape[0] != x.shape[0] or grid.shape[-1] != len(x.shape) - 2:
        raise NotNative(f"a grid {grid.shape} for {x.shape}")
    attributes = {
        "interpolation": (_INTERPOLATIONS[mode],),
        "padding": (_PADDINGS[padding],),
        "coordinates": (int(bool(node.attributes.get("align_corners", 0))),),
    }
    return [lowering.emit("GRID_SAMPLE", [x, grid], FLOAT32, (*x.shape[:2], *grid.shape[1:-1]), attributes)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "GridSample"): grid_sample,
    ("com.microsoft", "GridSample"): grid_sample,  # from before it was ONNX's
}
