"""Nodes that functions of arrays compute, since only the values tell the shapes of their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.dtypes import FLOAT32, INT64
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.trace import StepTime
from dmlcpu.onnx.constant_arrays import Array, ConstantElements
from dmlcpu.onnx.constants.constant_functions import non_zero_places
from dmlcpu.onnx.foreign.shaping_functions import chosen, counted_up, filled, is_filled_with_a_number, repeated
from dmlcpu.onnx.models.nodes import Node

__all__ = ["OPERATORS", "SHAPING_OPERATORS", "ArrayPart", "ArrayRunner", "is_function_of_arrays", "is_shaped_by_a_run"]

Types: TypeAlias = "Mapping[str, np.dtype[Any] | None]"
_Compute: TypeAlias = Callable[[Node, list[Array | None], Device], Array]

# From this version of RoiAlign on regions begin half a pixel before their corners unless a node says otherwise.
_HALF_PIXEL_SINCE: Final = 16
# Of a cell along an axis, and of a region: more than anybody asks for.
_MOST_SAMPLES: Final = 64
_MOST_CELLS: Final = 1024
# Kinds of types, as numpy names them.
_NUMBERS: Final = "biuf"  # conditions included
_INTEGERS: Final = "i"
_CONDITIONS: Final = "b"


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPart:
    """A node that a function of arrays computes.

    Attributes:
        nodes: That node.
        inputs: The values that it reads, by its own names for them.
        constants: What else it reads, by its own names.
        outputs: Names of the values that it writes.
        conditions: Names of conditions, and what each is where the part runs.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, str]
    constants: Mapping[str, ConstantElements]
    outputs: tuple[str, ...]
    conditions: tuple[tuple[str, bool], ...]


class ArrayRunner:
    """Calls the function of a part."""

    provider = "dmlcpu"
    size = 0

    def __init__(self, part: ArrayPart, device: Device) -> None:
        self._part, self._device = part, device
        (self._node,) = part.nodes
        self._compute = _ALL[self._node.domain, self._node.operator].compute

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        """Read what the node reads from the values, and add what it writes."""
        part = self._part
        given = {own: values[name] for own, name in part.inputs.items()}
        given.update((name, array) for name, array in part.constants.items() if isinstance(array, np.ndarray))
        inputs = [given[name] if name else None for name in self._node.inputs]
        try:
            values[part.outputs[0]] = self._compute(self._node, inputs, self._device)
        except MemoryError as error:
            raise MemoryError(f"node {self._node}: {error}") from None
        return ()


def is_function_of_arrays(node: Node, types: Types) -> bool:
    """Return whether a function here computes a node, whatever else another runtime is to run.

    Args:
        node: Any.
        types: Of what it reads; None where that is not known.
    """
    return _is_computed(node, _FUNCTIONS.get((node.domain, node.operator)), types)


def is_shaped_by_a_run(node: Node, types: Types, constants: Collection[str]) -> bool:
    """Return whether a function here computes a node whose result is as long as a run tells.

    Args:
        node, types: As of ``is_function_of_arrays``.
        constants: Names of what is known without a run.
    """
    function = _SHAPING_FUNCTIONS.get((node.domain, node.operator))
    told_by = node.inputs[1:] if node.operator in _MOVING else node.inputs
    return not {*told_by} <= {*constants} and _is_computed(node, function, types)


def _is_computed(node: Node, function: _Function | None, types: Types) -> bool:
    if function is None or not function.suits(node):
        return False
    if not function.least_inputs <= len(node.inputs) <= len(function.types):
        return False
    read = enumerate(zip(node.inputs, function.types, strict=False))
    return all(
        _is_taken(types.get(name), dtype) if name else place >= function.least_inputs for place, (name, dtype) in read
    )


def _is_taken(given: np.dtype[Any] | None, expected: np.dtype[Any] | str) -> bool:
    if isinstance(expected, str):
        return given is not None and given.kind in expected
    return given == expected


def _non_max_suppression(node: Node, inputs: list[Array | None], device: Device) -> Array:
    boxes, scores, most, overlap, least = (*inputs, None, None, None)[:5]
    assert boxes is not None
    assert scores is not None
    is_valid = boxes.ndim == scores.ndim == 3 and boxes.shape == (scores.shape[0], scores.shape[2], 4)
    if not is_valid:
        got = f"boxes of shape {boxes.shape} and scores of shape {scores.shape}"
        raise InvalidModelError(f"node {node}: got {got}, expected (N, boxes, 4) and (N, classes, boxes)")
    share = 0.0 if overlap is None else float(_only(node, "iou_threshold", overlap))
    if not 0 <= share <= 1:
        raise InvalidModelError(f"node {node}: got iou_threshold {share}, expected 0 to 1")
    return _core.non_max_suppression(
        boxes,
        scores,
        0 if most is None else max(int(_only(node, "max_output_boxes_per_class", most)), 0),
        share,
        None if least is None else float(_only(node, "score_threshold", least)),
        node.attributes.get("center_point_box", 0) != 0,
        device.isa,
        device.num_threads,
    )


def _only(node: Node, name: str, array: Array) -> float | int:
    if array.size != 1:
        raise InvalidModelError(f"node {node}: got {name} of shape {array.shape}, expected one number")
    number: float | int = array.item()
    return number


def _is_of_few_samples(node: Node) -> bool:
    """Return whether a RoiAlign asks for means or maxima, of as many samples as are taken here."""
    samples = node.attributes.get("sampling_ratio", 0)
    is_known: bool = node.attributes.get("mode", b"avg") in (b"avg", b"max")
    return is_known and 0 <= samples <= _MOST_SAMPLES


def _roi_align(node: Node, inputs: list[Array | None], device: Device) -> Array:
    images, regions, of_images = inputs
    assert images is not None
    assert regions is not None
    assert of_images is not None
    if images.ndim != 4 or regions.shape != (*of_images.shape, 4) or of_images.ndim != 1:
        got = f"X of shape {images.shape}, rois {regions.shape} and batch_indices {of_images.shape}"
        raise InvalidModelError(f"node {node}: got {got}, expected (N, C, H, W), (regions, 4) and (regions,)")
    by_default = b"half_pixel" if node.version >= _HALF_PIXEL_SINCE else b"output_half_pixel"
    rows, columns = (node.attributes.get(name, 1) for name in ("output_height", "output_width"))
    if not 1 <= min(rows, columns) <= max(rows, columns) <= _MOST_CELLS:
        raise InvalidModelError(f"node {node}: got {rows} x {columns} cells, expected 1 to {_MOST_CELLS} each way")
    try:
        return _core.roi_align(
            images,
            regions,
            of_images,
            rows,
            columns,
            node.attributes.get("sampling_ratio", 0),
            node.attributes.get("spatial_scale", 1.0),
            node.attributes.get("coordinate_transformation_mode", by_default) == b"half_pixel",
            node.attributes.get("mode", b"avg") == b"max",
            device.isa,
            device.num_threads,
        )
    except ValueError as error:
        raise InvalidModelError(f"node {node}: {error}") from None


def _by_numpy(function: Callable[[Node, Sequence[Array | None]], Array]) -> _Compute:
    """Return a function that takes no device."""
    return lambda node, inputs, device: function(node, inputs)


def _non_zero(node: Node, inputs: Sequence[Array | None]) -> Array:
    (given,) = inputs
    assert given is not None
    return non_zero_places(given)


@dataclass(frozen=True, slots=True)
class _Function:
    """What computes an operator.

    Attributes:
        compute: Takes a node, its inputs, None where one is absent, and where it runs.
        types: Of the inputs, those that may be left out included; kinds of types of one that may be of several.
        least_inputs: So many of them have to be there.
        suits: Whether it does what the attributes of a node ask for.
    """

    compute: _Compute
    types: tuple[np.dtype[Any] | str, ...]
    least_inputs: int
    suits: Callable[[Node], bool] = lambda node: True


_FUNCTIONS: Final[Mapping[tuple[str, str], _Function]] = {
    ("", "NonMaxSuppression"): _Function(
        _non_max_suppression, (FLOAT32, FLOAT32, INT64, FLOAT32, FLOAT32), least_inputs=2
    ),
    ("", "NonZero"): _Function(_by_numpy(_non_zero), (_NUMBERS,), least_inputs=1),
    ("", "RoiAlign"): _Function(_roi_align, (FLOAT32, FLOAT32, INT64), least_inputs=3, suits=_is_of_few_samples),
}
# In these another runtime is as fast. But what follows may be native, unless it follows nodes of that anyway.
_SHAPING_FUNCTIONS: Final[Mapping[tuple[str, str], _Function]] = {
    ("", "Compress"): _Function(_by_numpy(chosen), (_NUMBERS, _CONDITIONS), least_inputs=2),
    ("", "ConstantOfShape"): _Function(_by_numpy(filled), (INT64,), least_inputs=1, suits=is_filled_with_a_number),
    ("", "Expand"): _Function(_by_numpy(repeated), (_NUMBERS, INT64), least_inputs=2),
    ("", "Range"): _Function(_by_numpy(counted_up), (_INTEGERS,) * 3, least_inputs=3),
}
# Of these all inputs but the first tell the shape, of the others all.
_MOVING: Final = frozenset({"Compress", "Expand"})
_ALL: Final = {**_FUNCTIONS, **_SHAPING_FUNCTIONS}
OPERATORS: Final = frozenset(operator for _, operator in _FUNCTIONS)
"""ONNX's operators that functions here compute, of most types and attributes."""
SHAPING_OPERATORS: Final = frozenset(operator for _, operator in _SHAPING_FUNCTIONS)
"""Those that functions here compute where nothing else is for another runtime."""
