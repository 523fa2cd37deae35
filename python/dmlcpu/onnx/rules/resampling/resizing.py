"""Resize and Upsample: each output index has a lower and an upper source index and a weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, FreeArray
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.parameters import Parameters
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.gathered_values import gathered
from dmlcpu.onnx.rules.movement.moved_values import moved, transposed
from dmlcpu.onnx.rules.operands import axis_within, computed_floats, constant, integers, present
from dmlcpu.onnx.rules.quantized_resampling import FreeTaps, Taps, as_image, attributes_of, resampled
from dmlcpu.onnx.rules.resampling.interpolation import Axis, WeightedTaps, check_weights, interpolated, weighted_taps
from dmlcpu.onnx.values import CONSTANTS, AffineTable, Deferred, Dequantized, Tensor, Value, as_value

__all__ = ["RULES"]

_Floats = Array  # FLOAT32


# The place in the source of each output index, in FLOAT32 like onnxruntime's: at halves the rounding counts.
def _half_pixel(index: _Floats, axis: Axis) -> _Floats:
    return np.asarray((index + np.float32(0.5)) / axis.known_scale - np.float32(0.5))


def _half_pixel_symmetric(index: _Floats, axis: Axis) -> _Floats:
    adjustment = np.float32(axis.resized) / (axis.known_scale * np.float32(axis.size))
    offset = np.float32(axis.size) / np.float32(2) * (np.float32(1) - adjustment)
    # Summed in double precision, as onnxruntime does of this alone.
    return np.asarray(offset + (index.astype(np.float64) + 0.5) / np.float64(axis.known_scale) - 0.5, np.float32)


def _pytorch_half_pixel(index: _Floats, axis: Axis) -> _Floats:
    return _half_pixel(index, axis) if axis.resized > 1 else np.zeros_like(index)


def _align_corners(index: _Floats, axis: Axis) -> _Floats:
    if axis.resized == 1:
        return np.zeros_like(index)
    return np.asarray(index * np.float32(axis.size - 1) / np.float32(axis.resized - 1))


_COORDINATES: Final[Mapping[bytes, Callable[[_Floats, Axis], _Floats]]] = {
    b"half_pixel": _half_pixel,
    b"half_pixel_symmetric": _half_pixel_symmetric,
    b"pytorch_half_pixel": _pytorch_half_pixel,
    b"align_corners": _align_corners,
    b"asymmetric": lambda index, axis: index / axis.known_scale,
    b"tf_half_pixel_for_nn": lambda index, axis: (index + np.float32(0.5)) / axis.known_scale,
}


def _rounded(places: _Floats, half: Callable[[_Floats], _Floats]) -> _Floats:
    """Round places; those within a millionth of a half, where a quotient's rounding counts, as ``half`` does."""
    nearest = np.copysign(np.floor(np.abs(places) + np.float32(0.5)), places)
    is_half = np.abs(places - np.floor(places) - np.float32(0.5)) <= np.float32(1e-6)
    return np.where(is_half, half(places), nearest)


_NEAREST: Final[Mapping[bytes, Callable[[_Floats, Axis], _Floats]]] = {
    b"round_prefer_floor": lambda places, axis: _rounded(places, np.floor),
    b"round_prefer_ceil": lambda places, axis: _rounded(places, np.ceil),
    b"floor": lambda places, axis: np.floor(places),
    b"ceil": lambda places, axis: np.ceil(places),
    # Of version 10 and of Upsample.
    b"": lambda places, axis: np.ceil(places) if axis.known_scale < 1 else np.trunc(places),
}


def _axes(node: Node, shape: Sequence[int], inputs: Sequence[Value | None]) -> list[Axis]:
    """Return how a node resizes each axis of a tensor."""
    rank = len(shape)
    chosen = [axis_within(axis, rank) for axis in node.attributes.get("axes", range(rank))]
    given_scales, given_sizes = _scales_and_sizes(node, inputs)
    axes = [Axis(length, length, np.float32(1)) for length in shape]
    if given_sizes is not None:
        sizes = integers(given_sizes, "the sizes")
        policy = node.attributes.get("keep_aspect_ratio_policy", b"stretch")
        if policy != b"stretch":
            quotients = [size / shape[axis] for axis, size in zip(chosen, sizes, strict=True)]
            common = min(quotients) if policy == b"not_larger" else max(quotients)
            for axis in chosen:
                axes[axis] = Axis(shape[axis], math.floor(common * shape[axis] + 0.5), np.float32(common))
            return axes
        for axis, size in zip(chosen, sizes, strict=True):
            axes[axis] = Axis(shape[axis], size, derived(_quotient, size, shape[axis]))
        return axes
    scales = constant(given_scales, "the tensor of scales").astype(np.float32).reshape(-1)
    if scales.size != len(chosen) or not np.all((scales > 0) & (scales < 65536)):
        raise NotNative(f"scales {scales.tolist()}")
    for axis, scale in zip(chosen, scales, strict=True):
        if scale != 1:
            axes[axis] = Axis(shape[axis], length_by(_scaled, shape[axis], scale), scale)
    return axes


def _quotient(resized: int, size: int) -> np.float32:
    quotient: np.float32 = np.float32(resized / size)
    return quotient


def _scaled(size: int, scale: np.float32) -> int:
    length: int = math.floor(np.float32(size) * scale)
    return length


def _scales_and_sizes(node: Node, inputs: Sequence[Value | None]) -> tuple[Value | None, Value | None]:
    if node.operator == "Upsample" or node.version < 11:
        return inputs[1], None
    scales, sizes = (*inputs[2:], None, None)[:2]
    return (None if scales is None or math.prod(scales.shape) == 0 else scales), sizes


def places_of(node: Node, axis: Axis) -> _Floats:
    """Return the place in the source of each index of a resized axis.

    Raises:
        NotNative: They are counted in another way than these.
    """
    kind = b"asymmetric" if _is_modeless(node) else node.attributes.get("coordinate_transformation_mode", b"half_pixel")
    if kind not in _COORDINATES:
        raise NotNative(f"coordinates {kind.decode(errors='replace')}")
    if axis.size == axis.resized and axis.scale == 1:
        return np.arange(axis.resized, dtype=np.float32)
    return _COORDINATES[kind](np.arange(axis.resized, dtype=np.float32), axis)


def _is_modeless(node: Node) -> bool:
    """Return whether places are counted and rounded in the one way that there was before Resize of version 11."""
    return node.operator == "Upsample" or node.version < 11


def _taps(node: Node, axis: Axis, nearest: bool) -> FreeTaps:
    return cast(FreeTaps, derived(_taps_of, node, nearest, axis.size, axis.resized, axis.scale))


def _taps_of(node: Node, nearest: bool, size: int, resized: int, scale: np.float32) -> Taps:
    axis = Axis(size, resized, scale)
    places = places_of(node, axis)
    last = np.float32(size - 1)
    if nearest:
        mode = b"" if _is_modeless(node) else node.attributes.get("nearest_mode", b"round_prefer_floor")
        index = np.clip(_NEAREST[mode](places, axis), 0, last).astype(np.int64)
        return Taps(index, index, np.zeros(resized, np.float32))
    places = np.clip(places, np.float32(0), last)
    lower = places.astype(np.int64)
    upper = np.minimum(lower + 1, size - 1)
    return Taps(lower, upper, np.where(lower == upper, np.float32(0), places - lower.astype(np.float32)))


class Resized(Deferred):
    """An image of dequantized codes, interpolated."""

    def __init__(
        self, lowering: Lowering, x: AffineTable, shape: tuple[int, ...], taps: tuple[FreeTaps, FreeTaps]
    ) -> None:
        self._lowering, self._x, self._taps = lowering, x, taps
        self.shape = shape

    def quantized(self, parameters: Parameters) -> Tensor:
        """Add the resampling from codes to codes."""
        return resampled(self._lowering, self._x.codes, self.shape, self._taps, (self._x.parameters, parameters))

    def floats(self) -> Tensor:
        """Interpolate the dequantized codes."""
        return _interpolated(self._lowering, computed_floats(self._lowering, self._x), self.shape, self._taps)


def _interpolated(lowering: Lowering, x: Tensor, shape: Sequence[int], taps: tuple[FreeTaps, FreeTaps]) -> Tensor:
    """Add the operator on floats."""
    image = as_image(lowering, x)
    resized = (*shape[:2], *((1,) if len(shape) == 3 else ()), *shape[2:])
    result = lowering.emit("FLOAT_RESAMPLE", [image], np.float32, resized, attributes_of(taps))
    return lowering.reshaped(result, shape)


def _nearest(lowering: Lowering, tensor: Tensor, shape: Sequence[int], taps: tuple[FreeTaps, FreeTaps]) -> Tensor:
    """Return an image of the nearest elements, of any type: each as often as the next, or chosen along each axis."""
    split: list[int] = [*tensor.shape[:2]]
    repeated: list[int] = [*tensor.shape[:2]]
    for size, resized, of in zip(tensor.shape[2:], shape[2:], taps[4 - len(shape) :], strict=True):
        times = resized // size
        if times * size != resized or not decided_by(_repeats, of, times):
            places = {axis: derived(_lower, own) for axis, own in enumerate(taps[4 - len(shape) :], 2)}
            chosen = gathered(lowering, tensor, places)
            assert isinstance(chosen, Tensor)  # as a tensor's elements are, where there are some
            return chosen
        split += [size, 1]
        repeated += [size, times]
    return lowering.reshaped(lowering.expanded(lowering.reshaped(tensor, split), repeated), shape)


def _lower(taps: Taps) -> Array:
    return taps.lower


def _repeats(taps: Taps, times: int) -> bool:
    """Return whether each source index is nearest so many times before the next."""
    return np.array_equal(taps.lower, np.arange(taps.lower.size) // times)


def resize(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Resize and Upsample of images."""
    value = present(inputs[0])
    if len(value.shape) not in (3, 4):
        raise NotNative(f"resizing {len(value.shape)} dimensions")
    axes = _axes(node, value.shape, inputs)
    if all(axis.resized == axis.size for axis in axes):  # whatever the scales: onnxruntime copies
        return [value]
    mode = node.attributes.get("mode", b"nearest")
    if mode == b"cubic" or (mode == b"linear" and node.attributes.get("antialias", 0)):
        return [_resized_by_weights(lowering, node, value, axes)]
    if len(axes) == 4 and not axes[3].changes and axes[1].changes:  # channels are behind
        image = transposed(lowering, value, (0, 3, 1, 2))
        result = _resized(lowering, node, image, [axes[0], axes[3], axes[1], axes[2]])
        return [transposed(lowering, result, (0, 2, 3, 1))]
    return [_resized(lowering, node, value, axes)]


def _bound_to(value: Value, axes: Sequence[Axis]) -> Sequence[Axis]:
    """Return the axes of a value. An array is as large as it is."""
    return [axis.bound for axis in axes] if isinstance(value, CONSTANTS) else axes


def _shape(axes: Sequence[Axis], spatial: Sequence[int]) -> tuple[int, ...]:
    """Return what an image becomes.

    Raises:
        NotNative: Other axes change than the spatial ones, or nothing is left.
    """
    if any(axis.changes for number, axis in enumerate(axes) if number not in spatial):
        raise NotNative("other axes than the spatial ones are resized")
    shape = tuple(axis.resized for axis in axes)
    if any(length < 1 for length in shape):
        raise NotNative(f"an image of shape {shape}")
    return shape


def _resized_by_weights(lowering: Lowering, node: Node, value: Value, axes: Sequence[Axis]) -> Value:
    """Return an image resized by weighted sums of as many places as there may be; codes are those of the sums."""
    if isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        own = Parameters(np.float32(1), 0, value.dtype)
        sums = _resized_by_weights(lowering, node, AffineTable(value, own), axes)
        return as_value(lowering.quantized(sums, own))
    if isinstance(value, FreeArray) or (isinstance(value, Dequantized) and isinstance(value.held, FreeArray)):
        axes = _bound_to(value, axes)
    if len(axes) == 3:
        axes = [*axes[:2], Axis(1, 1, np.float32(1)), axes[2]]
    spatial = (1, 2) if axes[1].changes else (2, 3)
    shape = _shape(axes, spatial)
    for number in spatial:
        check_weights(axes[number])
    x = as_image(lowering, computed_floats(lowering, value))
    result = interpolated(lowering, x, shape, spatial, [_weighted(node, axes[number]) for number in spatial])
    return lowering.reshaped(result, shape if len(value.shape) == 4 else (*shape[:2], shape[3]))


def _weighted(node: Node, axis: Axis) -> WeightedTaps | Derived:
    return cast("WeightedTaps | Derived", derived(_weighted_of, node, axis.size, axis.resized, axis.scale))


def _weighted_of(node: Node, size: int, resized: int, scale: np.float32) -> WeightedTaps:
    axis = Axis(size, resized, scale)
    return weighted_taps(node, axis, places_of(node, axis))


def _resized(lowering: Lowering, node: Node, value: Value, axes: Sequence[Axis]) -> Value:
    """Return an image resized, as its axes tell."""
    mode = node.attributes.get("mode", b"nearest")
    axes = _bound_to(value, axes)
    shape = _shape(axes, (2, len(axes) - 1))
    if mode not in (b"nearest", b"linear"):
        raise NotNative(f"interpolation {mode.decode(errors='replace')}")
    spatial = [_taps(node, axis, mode == b"nearest") for axis in axes[2:]]
    single = np.zeros(1, np.int64)
    taps = (spatial[0] if len(spatial) == 2 else Taps(single, single, np.zeros(1, np.float32)), spatial[-1])
    if mode == b"linear" and isinstance(value, Tensor) and value.dtype in CODE_TYPES:
        return resampled(lowering, value, shape, taps)
    if mode == b"linear":
        if isinstance(value, AffineTable):
            return Resized(lowering, value, shape, taps)
        return _interpolated(lowering, computed_floats(lowering, value), shape, taps)
    if isinstance(value, Tensor) and value.dtype not in CODE_TYPES:
        return _nearest(lowering, value, shape, taps)

    def move(tensor: Tensor) -> Tensor:
        if tensor.dtype not in CODE_TYPES:
            return _nearest(lowering, tensor, shape, taps)
        return resampled(lowering, tensor, shape, taps)

    def move_array(array: Array) -> Array:
        rows, columns = taps
        assert isinstance(rows, Taps)  # all lengths of an array are known
        assert isinstance(columns, Taps)
        images = array.reshape(*array.shape[:2], -1, array.shape[-1])
        chosen: Array = images[:, :, rows.lower][..., columns.lower]
        return chosen.reshape(shape)

    return moved(lowering, value, shape, move, move_array)


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Resize"): resize,
    ("", "Upsample"): resize,
}
