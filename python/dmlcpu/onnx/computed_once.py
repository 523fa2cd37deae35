"""Nodes of constants that kernels compute: once, not in each run.

Such as positions that are brought to the size of an image, and shapes some of whose numbers are codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.lengths import derived
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.constant_arrays import Array, Constant, FreeArray
from dmlcpu.onnx.constants.folding import Folding
from dmlcpu.onnx.lowering import Lowering, Rule
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFolded
from dmlcpu.onnx.values import Tensor, Value

__all__ = ["computed_once"]

# Operators that nothing computes beforehand but kernels, in proportion to what they read and write.
_BY_KERNELS: Final = frozenset({"QLinearAdd", "QLinearMul", "Resize"})
# Larger results are computed in each run: a plan would hold them.
_MOST_ELEMENTS: Final = 1 << 20


def computed_once(
    lowering: Lowering, rule: Rule, node: Node, inputs: Sequence[Value | None], folding: Folding
) -> Constant | None:
    """Return the very result that a node of constants has in each run, if it is better computed beforehand.

    Args:
        lowering: Where the node would be lowered otherwise; nothing is added to it.
        rule: That lowers it.
        node: Any.
        inputs: What it reads.
        folding: Grants the work.

    Raises:
        NotNative: The rule does not take the node.
    """
    if node.operator not in _BY_KERNELS:
        return None
    sources = [value.source for value in inputs if isinstance(value, Constant)]
    places = [place for place, value in enumerate(inputs) if isinstance(value, Constant)]
    if len(places) + inputs.count(None) < len(inputs):
        return None
    apart = partial(Lowering, lowering.device, lowering.uses)
    try:
        made = derived(_result, apart, rule, node, tuple(places), *sources)
    except NotFolded:
        return None
    array = made.value if isinstance(made, Derived) else made
    if not folding.grants(array.nbytes):
        return None
    return FreeArray.of(made) if isinstance(made, Derived) else Constant(array)


def _result(apart: Callable[[], Lowering], rule: Rule, node: Node, places: Sequence[int], *arrays: Array) -> Array:
    """Return what a node comes to in a graph of its own.

    Args:
        apart: Makes what the node is lowered to.
        rule: That lowers it.
        node: Any.
        places: Of the arrays among its inputs; the others are absent.
        arrays: What it reads.

    Raises:
        NotFolded: A plan would hold too much.
        NotNative: The rule does not take the node.
    """
    lowering = apart()
    lowering.node = node
    inputs: list[Value | None] = [None] * len(node.inputs)
    for place, array in zip(places, arrays, strict=True):
        inputs[place] = Constant(array)
    [result] = rule(lowering, node, inputs)
    tensor = lowering.elements(result)
    if math.prod(tensor.shape) > _MOST_ELEMENTS:
        raise NotFolded("its result is too large to be computed beforehand")
    if not isinstance(tensor, Tensor):
        return tensor.array if isinstance(tensor, FreeArray) else tensor
    graph = lowering.partition.graph
    graph.mark_output(tensor.number, "output_0", lowering.partition.desc(tensor.dtype, tensor.shape))
    reaching, _ = graph.reaching(graph.outputs)
    return np.asarray(CompiledGraph(lowering.device, reaching).dispatch()).reshape(tensor.shape)
