"""Types and shapes of what another runtime makes, of lengths that may be known only later, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from dmlcpu.graph.lengths import at_hand, decided_by, derived, is_free, length_by
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, ArrayType, FreeArray
from dmlcpu.onnx.constants.folding import LONGEST_SHAPE, propagated
from dmlcpu.onnx.foreign.parts import ForeignNodes
from dmlcpu.onnx.models.extraction import extracted, inferred
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.values import Elements, Tensor

__all__ = ["told_types"]


def told_types(
    model: onnx.ModelProto, taken: ForeignNodes[Elements], misjudged: Collection[str]
) -> Mapping[str, ArrayType | None]:
    """Return the types and shapes of what nodes write; None of what only a run tells.

    While a plan for all lengths is made, with lengths of a record, one such value makes it None of all values.

    Args:
        model: That the nodes are of.
        taken: The nodes; what is asked for are their outputs.
        misjudged: Names of values of which inference has told other shapes than runs made.
    """
    types, outputs = _Types(model, taken, misjudged), taken.outputs
    told = derived(types, *types.arguments)
    if not isinstance(told, Derived):
        return dict(zip(outputs, told, strict=True))
    if None in told.value:  # who plans for all lengths does without the others then, so that nothing is decided
        return dict.fromkeys(outputs)
    fixed = types.fixed_lengths()
    result: dict[str, ArrayType | None] = {}
    for place, (name, (dtype, shape)) in enumerate(zip(outputs, told.value, strict=True)):
        decided_by(_is_of, told, place, dtype, len(shape))
        always = fixed.get(name) or (None,) * len(shape)
        lengths = [
            length if length == constant else length_by(_length, told, place, axis)
            for axis, (length, constant) in enumerate(zip(shape, always, strict=True))
        ]
        result[name] = dtype, tuple(lengths)
    return result


def _is_of(told: Sequence[ArrayType | None], place: int, dtype: np.dtype[Any], rank: int) -> bool:
    known = told[place]
    return known is not None and (known[0], len(known[1])) == (dtype, rank)


def _length(told: Sequence[ArrayType], place: int, axis: int) -> int:
    return told[place][1][axis]


class _Types:
    """A function of lengths and small constants: what they tell of the outputs of nodes.

    Attributes:
        arguments: What it is to be called with: the lengths of what is read and, of small constants, the elements.
    """

    def __init__(self, model: onnx.ModelProto, taken: ForeignNodes[Elements], misjudged: Collection[str]) -> None:
        self._model, self._nodes, self._reads, self._outputs = model, taken.given, taken.reads, taken.outputs
        self._misjudged = _misjudged(taken.given).union(misjudged)
        self._constants = {name for name, value in taken.reads.items() if _is_small(value)}
        self.arguments: list[Any] = []
        for name, value in taken.reads.items():
            if name not in self._constants:
                self.arguments.extend(value.shape)
            else:
                self.arguments.append(value.derived if isinstance(value, FreeArray) else value)

    def __call__(self, *arguments: Any) -> tuple[ArrayType | None, ...]:
        given = iter(arguments)
        inputs: dict[str, ArrayType] = {}
        constants: dict[str, Array] = {}
        for name, value in self._reads.items():
            if name in self._constants:
                constants[name] = next(given)
            else:
                inputs[name] = value.dtype, tuple(next(given) for _ in value.shape)
        known = propagated(extracted(self._model, self._nodes, inputs, constants, self._outputs), self._nodes)
        told = ((None, None) if name in self._misjudged else known.get(name, (None, None)) for name in self._outputs)
        return tuple(None if dtype is None or shape is None else (dtype, shape) for dtype, shape in told)

    def fixed_lengths(self) -> Mapping[str, tuple[int | None, ...]]:
        """Return the lengths of outputs that are the same whatever others are, None for these."""
        inputs = {}
        constants = {}
        for name, value in self._reads.items():
            if name in self._constants and isinstance(value, np.ndarray):
                constants[name] = value
            else:
                lengths = tuple(None if is_free([length]) else length for length in value.shape)
                inputs[name] = value.dtype, lengths
        try:
            told = inferred(extracted(self._model, self._nodes, inputs, constants, self._outputs))
        except Exception:  # inference is a help
            return {}
        return {
            value.name: tuple(
                int(length.dim_value) if length.HasField("dim_value") else None
                for length in value.type.tensor_type.shape.dim
            )
            for value in told.graph.output
            if value.type.tensor_type.HasField("shape")
        }


def _misjudged(nodes: Sequence[Node]) -> set[str]:
    """Return the values of which onnx's inference may tell other shapes than onnxruntime makes, and what follows them.

    Of others it is a run that shows it, if what follows them is valid for the wrong shapes, too.

    Args:
        nodes: In order.
    """
    names: set[str] = set()
    for node in nodes:
        if _is_misjudged(node) or not names.isdisjoint(node.reads):
            names.update(node.outputs)
    return names


def _is_misjudged(node: Node) -> bool:
    pads_itself = node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"")
    if node.operator == "ConvTranspose":
        return pads_itself or "output_shape" in node.attributes
    if node.operator not in ("AveragePool", "LpPool", "MaxPool"):
        return False
    rounds_up = bool(node.attributes.get("ceil_mode", 0))
    is_dilated = any(dilation != 1 for dilation in node.attributes.get("dilations", ()))
    return (rounds_up and node.operator == "LpPool") or (pads_itself and (rounds_up or is_dilated))


def _is_small(value: Elements) -> bool:
    if isinstance(value, Tensor):
        return False
    shape = at_hand(value.shape)
    return int(np.prod(shape, dtype=np.float64)) <= LONGEST_SHAPE
