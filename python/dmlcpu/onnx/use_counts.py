"""How often the values of a model are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

import numpy as np

from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import Node

__all__ = ["UseCounts"]

# Operators that read floats, whatever is made of their results.
_CALCULATING: Final = ("Add", "Sub", "Mul", "Div")
# Operators whose results are elements of what they read, moved, clipped or chosen: codes where that becomes codes.
_PASSING_ON: Final = frozenset({
    "Cast", "Clip", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad",
    "Relu", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    "Upsample",
})  # fmt: skip
_TAKING_PARTS: Final = frozenset({"Slice", "Split"})
_TELLING_SHAPES: Final = frozenset({"Shape", "Size"})
_NOTED: Final = _PASSING_ON | _TELLING_SHAPES | {"QuantizeLinear"}
# Of a value that becomes more others, those that have been met tell enough.
_MOST_MET: Final = 64


class UseCounts:
    """How many nodes read each value, and how many of these dequantize it; the caller, who has outputs, is one more."""

    def __init__(self, outputs: Iterable[str], constants: Mapping[str, Array] | None = None) -> None:
        self._constants: Mapping[str, Array] = {} if constants is None else constants
        # Not Counters, whose methods for many names take several times as long for the few of a node.
        self._all: dict[str, int] = defaultdict(int)
        for name in outputs:
            self._all[name] += 1
        self._outputs = frozenset(self._all)
        self._dequantizing: dict[str, int] = defaultdict(int)
        self._telling_types: dict[str, int] = defaultdict(int)
        self._calculating: dict[str, int] = defaultdict(int)
        self._noted: dict[str, list[Node]] = defaultdict(list)

    def add(self, node: Node) -> None:
        """Take note of what a node reads."""
        self._count(node, 1)

    def remove(self, node: Node) -> None:
        """Forget a node, for which others stand, such as an If, for which those of a branch do."""
        self._count(node, -1)

    def copy(self) -> UseCounts:
        """Return the counts as they are now."""
        copied = UseCounts(self._outputs, self._constants)
        copied.restore(self)
        return copied

    def restore(self, counts: UseCounts) -> None:
        """Count as others do."""
        self._all = counts._all.copy()
        self._dequantizing = counts._dequantizing.copy()
        self._telling_types = counts._telling_types.copy()
        self._calculating = counts._calculating.copy()
        self._noted = defaultdict(list, {name: [*nodes] for name, nodes in counts._noted.items()})

    def _count(self, node: Node, times: int) -> None:
        for name in node.reads:
            self._all[name] += times
        if node.operator == "DequantizeLinear" and node.inputs:
            self._dequantizing[node.inputs[0]] += times
        elif node.operator in _CALCULATING:
            for name in node.reads:
                self._calculating[name] += times
        elif node.operator == "CastLike":
            for name in node.reads[1:]:
                self._telling_types[name] += times
        elif node.operator in _NOTED:
            for name in node.reads:
                if times > 0:
                    self._noted[name].append(node)
                else:
                    self._noted[name].remove(node)

    def is_read_once(self, name: str) -> bool:
        """Return whether a value is read once, by a node or the caller; who asks for its type alone does not count."""
        return self._all[name] - self._telling_types[name] == 1

    def is_calculated_with(self, name: str) -> bool:
        """Return whether the floats of a value are operands of arithmetic, or for the caller."""
        return self._calculating[name] > 0 or name in self._outputs

    def is_sliced(self, name: str) -> bool:
        """Return whether parts of a value are read, by Slice or Split."""
        return any(node.operator in _TAKING_PARTS for node in self._noted.get(name, ()))

    def is_only_dequantized(self, name: str) -> bool:
        """Return whether a value is read by nodes that dequantize it alone."""
        return 0 < self._dequantizing[name] == self._all[name]

    def is_for_the_caller(self, name: str) -> bool:
        """Return whether the caller alone reads a value."""
        return name in self._outputs and self.is_read_once(name)

    def forms(self, name: str) -> int:
        """Return in how many forms a value is read, itself or moved: floats, and codes of so many parameters."""
        forms: set[Hashable] = set()
        waiting, met = [name], {name}
        while waiting and len(met) <= _MOST_MET:
            name = waiting.pop()
            readers = self._noted.get(name, ())
            if self._all[name] - self._telling_types[name] > len(readers):
                forms.add("floats")
            for node in readers:
                if node.operator == "QuantizeLinear":
                    forms.add(self._parameters(node))
                elif node.operator in _PASSING_ON:
                    waiting.extend(output for output in node.outputs if output not in met)
                    met.update(node.outputs)
        return len(forms)

    def _parameters(self, node: Node) -> Hashable:
        """Return what parameters of the same codes, be these UINT8 or INT8, have in common."""
        scale, point = (self._constants.get(name) for name in (*node.inputs[1:], "", "")[:2])
        if scale is None or scale.size != 1 or (point is not None and point.size != 1):
            return node.inputs[1:]
        offset = 0 if point is None or point.dtype.kind not in "iu" else int(point.item())
        return scale.tobytes(), offset - 128 * (point is None or point.dtype == np.uint8)
