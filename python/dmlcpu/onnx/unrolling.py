"""Which loops are unrolled: those whose steps may be native, and are counted when a model is planned."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Final

import numpy as np
import onnx

from dmlcpu.graph.lengths import length_by
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.constants.folding import is_computed_beforehand
from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.loops import FEW_COUNTS, MOST_COUNTS, walked_along
from dmlcpu.onnx.models.nodes import Node, short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.rules import RULES
from dmlcpu.onnx.values import Value

__all__ = ["LOOPS", "has_native_steps", "is_true", "most_counts", "step_count"]

LOOPS: Final = frozenset({"Loop", "Scan"})
"""Operators that repeat a graph within them."""
_WITH_GRAPHS: Final = LOOPS | {"If"}
# Operators whose rules make large matrices of few words: each step would have its own.
_WITH_MATRICES: Final = frozenset({"DFT", "STFT"})


def has_native_steps(node: onnx.NodeProto) -> bool:
    """Return whether there are rules for all that a loop repeats; they may still refuse."""
    return all(_may_be_native(inner) for graph in graphs_within(node.attribute) for inner in graph.node)


def _may_be_native(node: onnx.NodeProto) -> bool:
    domain, operator = short_domain(node.domain), node.op_type
    if domain == "" and operator in _WITH_GRAPHS:
        return has_native_steps(node)
    if operator in _WITH_MATRICES:
        return False
    return (domain, operator) in RULES or (
        domain == "" and (is_computed_beforehand(operator) or operator == "CastLike")
    )


def step_count(node: Node, values: Mapping[str, Value]) -> int | None:
    """Return how many steps a loop takes if nothing ends it before; None if only a run tells.

    The count may follow from lengths that are known only later.

    Args:
        node: A Loop or a Scan.
        values: What is there: all that it reads.
    """
    if node.operator == "Scan":
        lengths = [_length_along(values[name], axis) for name, axis in walked_along(node)]
        return lengths[0] if lengths and all(length == lengths[0] for length in lengths[1:]) else None
    trips, goes_on = (*node.inputs[:2], "", "")[:2]
    if goes_on and not is_true(values[goes_on]):
        return None
    number = values[trips] if trips else None
    if not isinstance(number, Constant) or number.dtype != np.int64 or math.prod(number.shape) != 1:
        return None
    return length_by(_only, number.source)


def most_counts(node: Node, independent: Container[str]) -> int:
    """Return how many counts of steps a loop is unrolled for: few, if they follow from lengths.

    Of each value of an input, plans are of their own anyway; and without onnxruntime nobody else runs a loop.

    Args:
        node: A loop.
        independent: Names of values that follow neither from inputs nor from their lengths.
    """
    follows_from_lengths = node.operator == "Scan" or node.inputs[0] not in independent
    return FEW_COUNTS if follows_from_lengths and has_onnxruntime() else MOST_COUNTS


def _only(array: Array) -> int:
    return int(array.reshape(()))


def _length_along(value: Value, axis: int) -> int | None:
    rank = len(value.shape)
    return value.shape[axis] if -rank <= axis < rank else None


def is_true(value: Value) -> bool:
    """Return whether a value is a condition that is known to be met."""
    if not isinstance(value, Constant) or value.dtype != np.bool_ or math.prod(value.shape) != 1:
        return False
    return bool(value.array.reshape(()))
