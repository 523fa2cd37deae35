"""AffineGrid: where the pixels of a turned, scaled or moved image are in another, as onnxruntime computes it."""

from __future__ import annotations

import numpy as np

from dmlcpu.onnx.constant_arrays import Array

__all__ = ["affine_grid", "places_along"]


def affine_grid(theta: Array, lengths: tuple[int, ...], align_corners: bool) -> Array:
    """Return the places of pixels, each {x, y} or {x, y, z}: FLOAT32 {N, *lengths, axes}.

    Onnx's evaluator computes in double precision, divides by 0 where corners of an axis of length 1 are aligned, and
    counts steps of floats to find how many places there are. Here are onnxruntime's bits: all is FLOAT32, and sums
    begin with the product of the first axis.

    Args:
        theta: FLOAT32 {N, axes, axes + 1}.
        lengths: Of an image or volume, at least 1.
        align_corners: Whether -1 and 1 are the first and last pixel, and not the outer borders of these.
    """
    axes = len(lengths)
    ones = (1,) * axes
    products = [
        places_along(length, align_corners).reshape(length, *ones[axis:])
        * theta[:, :, axes - 1 - axis].reshape(-1, *ones, axes)
        for axis, length in enumerate(lengths)
    ]
    return sum(products[1:], products[0]) + theta[:, :, axes].reshape(-1, *ones, axes)


def places_along(length: int, align_corners: bool) -> Array:
    """Return where the pixels of an axis are, from -1 to 1."""
    step = np.float32(2) / np.float32(max(length - 1, 1))
    places: Array = np.float32(-1) + np.arange(length, dtype=np.float32) * step
    places[-1] = 1  # of a single one, too
    return places if align_corners else places * np.float32(length - 1) / np.float32(length)
