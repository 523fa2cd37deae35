"""ReverseSequence with constant lengths: rows in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from dmlcpu.graph.lengths import derived
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.movement.gathered_values import gathered
from dmlcpu.onnx.rules.movement.moved_values import reshaped
from dmlcpu.onnx.rules.operands import present
from dmlcpu.onnx.rules.recurrence.sequence_lengths import are_whole
from dmlcpu.onnx.values import Value

__all__ = ["RULES"]

# Rows that are told one by one.
_MOST_ROWS: Final = 1 << 20


def _reversed_rows(lengths: Array, steps: int, count: int, sequences_first: bool) -> Array:
    """Return where the rows of sequences, each reversed as far as its length, come from.

    Raises:
        NotNative: Not each sequence has a length that it can have.
    """
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or count * steps > _MOST_ROWS:
        raise NotNative(f"lengths of type {lengths.dtype} and shape {lengths.shape} for {count} sequences")
    ends = lengths.astype(np.int64)[:, np.newaxis]
    if ends.min(initial=0) < 0 or ends.max(initial=0) > steps:
        raise NotNative(f"a sequence that is not of 0 to {steps} steps")
    forwards, sequences = np.arange(steps), np.arange(count)[:, np.newaxis]
    sources = np.where(forwards < ends, ends - 1 - forwards, forwards)
    rows: Array = sequences * steps + sources if sequences_first else (sources * count + sequences).T
    return rows.reshape(-1)


def _backwards(steps: int) -> Array:
    return np.arange(steps)[::-1]


def reverse_sequence(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ReverseSequence, whose first two axes are steps and sequences, in either order."""
    value, lengths = present(inputs[0]), inputs[1]
    axes = int(node.attributes.get("batch_axis", 1)), int(node.attributes.get("time_axis", 0))
    if not isinstance(lengths, Constant) or len(value.shape) < 2 or {*axes} != {0, 1}:
        raise NotNative("lengths that are computed, or other axes than the first two")
    sequences, steps = axes
    if are_whole(lengths, value.shape[steps], value.shape[sequences]):
        return [gathered(lowering, value, {steps: derived(_backwards, value.shape[steps])})]
    rows = reshaped(lowering, value, (value.shape[0] * value.shape[1], *value.shape[2:]))
    places = derived(_reversed_rows, lengths.source, value.shape[steps], value.shape[sequences], sequences == 0)
    return [reshaped(lowering, gathered(lowering, rows, {0: places}), value.shape)]


RULES: Final[Mapping[tuple[str, str], Rule]] = {("", "ReverseSequence"): reverse_sequence}
