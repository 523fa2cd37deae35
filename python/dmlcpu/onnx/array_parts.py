"""Nodes that functions of arrays compute, since only the values tell the shapes of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dmlcpu import _core
from dmlcpu.device import Device
from dmlcpu.errors import InvalidModelError
from dmlcpu.graph.trace import StepTime
from dmlcpu.onnx.nodes import Node
from dmlcpu.onnx.values import Array, FreeArray

__all__ = ["ArrayPart", "ArrayRunner", "is_function_of_arrays"]


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
    constants: Mapping[str, Array | FreeArray]
    outputs: tuple[str, ...]
    conditions: tuple[tuple[str, bool], ...]


class ArrayRunner:
    """Calls the function of a part."""

    provider = "dmlcpu"
    size = 0

    def __init__(self, part: ArrayPart, device: Device) -> None:
        self._part, self._device = part, device
        (self._node,) = part.nodes
        self._function = _FUNCTIONS[self._node.domain, self._node.operator]

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        """Read what the node reads from the values, and add what it writes."""
        part = self._part
        given = {own: values[name] for own, name in part.inputs.items()}
        given.update((name, array) for name, array in part.constants.items() if isinstance(array, np.ndarray))
        inputs = [given[name] if name else None for name in self._node.inputs]
        values[part.outputs[0]] = self._function(self._node, inputs, self._device)
        return ()


def is_function_of_arrays(node: Node, types: Mapping[str, np.dtype[np.generic] | None]) -> bool:
    """Return whether a function here computes a node.

    Args:
        node: Any.
        types: Of what it reads; None where that is not known.
    """
    if (node.domain, node.operator) not in _FUNCTIONS or not 2 <= len(node.inputs) <= len(_TYPES):
        return False
    read = zip(node.inputs, _TYPES, strict=False)
    return all(types.get(name) == dtype if name else place > 1 for place, (name, dtype) in enumerate(read))


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


_FUNCTIONS: Final[Mapping[tuple[str, str], Callable[[Node, list[Array | None], Device], Array]]] = {
    ("", "NonMaxSuppression"): _non_max_suppression,
}
# Of the inputs of NonMaxSuppression.
_TYPES: Final = tuple(np.dtype(name) for name in ("float32", "float32", "int64", "float32", "float32"))
