"""Nodes of constants, computed while a model is planned: shapes, and weights that are only rearranged.

However small a model is, it may ask for any amount of work: arrays of 2**60 elements, loops without an end. So only
operators are computed here whose work is in proportion to what they read and write, and a plan may spend no more on
them than ``Folding`` grants.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.graph.lengths import decided_by, derived, length_by
from dmlcpu.graph.record import Derived
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.constant_arrays import Array, Constant, FreeArray
from dmlcpu.onnx.constants.constant_functions import by_numpy
from dmlcpu.onnx.constants.evaluator import evaluator_of
from dmlcpu.onnx.constants.shape_arithmetic import computed_with_shapes
from dmlcpu.onnx.models.extraction import described, shape_of
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotFolded, NotNative
from dmlcpu.onnx.values import Value

__all__ = ["LONGEST_SHAPE", "Folding", "is_computed_beforehand", "propagated"]

# Operators that are numpy's in the reference evaluator.
_ARRAYS: Final = frozenset(
    {
        "AffineGrid",
        "Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
        "BitwiseXor", "BlackmanWindow", "HammingWindow", "HannWindow", "Cast", "CastLike", "Ceil", "Clip",
        "Compress", "Concat", "Constant", "ConstantOfShape", "Cos", "CumProd", "CumSum", "DepthToSpace",
        "DequantizeLinear", "Div", "Einsum", "Equal", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
        "GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log",
        "MatMul", "Max", "Mean", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "Pad", "Pow",
        "QuantizeLinear", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign",
        "Sin", "Size", "Slice", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile",
        "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
# Operators that go through their elements one by one there, and how many bytes each is as slow as.
_ELEMENTS: Final = frozenset(
    {"Erf", "GatherElements", "MelWeightMatrix", "Scatter", "ScatterElements", "ScatterND", "TopK"}
)
_ELEMENT_COST: Final = 1 << 10
# Operators whose results may be of any size, whatever they read.
_GROWING: Final = frozenset(
    {
        "AffineGrid", "BlackmanWindow", "ConstantOfShape", "Expand", "EyeLike", "HammingWindow", "HannWindow",
        "MelWeightMatrix", "OneHot", "Pad", "Range", "Tile",
    }
)  # fmt: skip
# Operators, by what their names begin with, of which the evaluator has another result for nothing than runtimes have.
_REDUCING: Final = ("Arg", "Mean", "Reduce", "Split")
# The results of a node have no more bytes than this.
_MAX_BYTES: Final = 1 << 26
# A plan reads and writes so many bytes in all, and as often what the model brings: a second's work, about.
_GRANTED: Final = 1 << 28
_GRANTED_TIMES: Final = 16
# Arrays of more elements are no shapes.
LONGEST_SHAPE: Final = 1 << 10


def is_computed_beforehand(operator: str) -> bool:
    """Return whether nodes of one of ONNX's own operators are computed here, if they are not too large."""
    return operator in _ARRAYS or operator in _ELEMENTS


class Folding:
    """What a plan may still spend on nodes of constants.

    Args:
        brought: Bytes of the model's constants.
    """

    def __init__(self, brought: int = 0, granted: int = _GRANTED) -> None:
        self._left = granted + _GRANTED_TIMES * brought
        self._later: list[Any] = []  # what has been spent that follows from lengths that are known only later

    def __call__(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Constant]:
        """Compute a node of constants; of those that are known only later, what follows from them.

        Raises:
            NotNative: There is no telling, or it is too much.
        """
        if node.domain != "" or not is_computed_beforehand(node.operator):
            raise NotFolded("no operator that is computed beforehand")
        if (with_shapes := computed_with_shapes(node, inputs)) is not None:
            return [with_shapes]
        constants = [value for value in inputs if isinstance(value, Constant)]
        if node.operator.startswith(_REDUCING) and any(0 in value.shape for value in constants[:1]):
            raise NotNative("nothing to reduce, of which runtimes say otherwise")
        if node.operator == "Identity" and len(constants) == 1:
            return constants
        if node.operator == "Transpose" and len(constants) == 1 and isinstance(constants[0], ConstantOfBlocks):
            axes = range(len(constants[0].shape))
            order = node.attributes.get("perm", axes[::-1])
            if isinstance(order, Sequence) and set(order) == {*axes} and len(order) == len(axes):
                return [constants[0].transpose(order)]
        arrays = [value.source for value in constants]
        try:
            computed = self._by_numpy(node, arrays)
            return self._by_evaluator(node, arrays) if computed is None else [computed]
        except NotNative:
            for value in constants:
                np.asarray(value.array)  # of other lengths it may be computed: these are bound
            raise

    def _by_numpy(self, node: Node, arrays: Sequence[Array | Derived]) -> Constant | None:
        known = by_numpy(node, [array.value if isinstance(array, Derived) else array for array in arrays])
        if known is None:
            return None
        self._spend(known.nbytes)
        made = derived(_as_decided, node, known.dtype, known.ndim, *arrays)
        if not isinstance(made, Derived):
            return Constant(known)
        self._later.append(made)
        return FreeArray.of_type(made, known.dtype, known.ndim)

    def _by_evaluator(self, node: Node, arrays: Sequence[Array | Derived]) -> Sequence[Constant]:
        task = derived(_task, node, *arrays)
        self._spend(task.value.nbytes if isinstance(task, Derived) else task.nbytes)
        if isinstance(task, Derived):
            self._later.append(task)
            self.decide()  # before it is computed
        results = derived(_results, task)
        if not isinstance(results, Derived):
            return [Constant(array) for array in results]
        return [FreeArray.of(derived(operator.getitem, results, place)) for place in range(len(results.value))]

    def grants(self, cost: int) -> bool:
        """Return whether there is enough for what others compute; then it is spent."""
        if cost > self._left:
            return False
        self._left -= cost
        return True

    def _spend(self, cost: int) -> None:
        if self.grants(cost):
            return
        if self._later:
            int(length_by(_total, *self._later))  # of other lengths it may be little enough: these are bound
            self._later = []
        raise NotFolded("it is too much to be computed beforehand")

    def decide(self) -> None:
        """Decide that there was enough for all nodes so far: what is spent only grows, so there was for each."""
        if self._later:
            total: Any = length_by(_total, *self._later)  # a length, as those that it follows from are
            self._later = [total]
            decided_by(operator.le, total, self._left + total.value)


def _total(*spent: _Task | Array | int) -> int:
    return sum(each if isinstance(each, int) else each.nbytes for each in spent)


def _as_decided(node: Node, dtype: np.dtype[Any], axes: int, *arrays: Array) -> Array:
    """Return what numpy makes of a node.

    Raises:
        ValueError: It is nothing, or not of this type and so many axes.
    """
    result = by_numpy(node, arrays)
    if result is None or (result.dtype, result.ndim) != (dtype, axes):
        raise ValueError(f"{node} decides otherwise")
    return result


@dataclass(frozen=True, slots=True)
class _Task:
    """A node for the evaluator.

    Attributes:
        nbytes: What it takes.
        model: Of this node alone.
        fed: To the model.
        types: Of its results, None where there is no telling.
    """

    nbytes: int
    model: onnx.ModelProto
    fed: Mapping[str, Array]
    types: Sequence[np.dtype[Any] | None]


def _task(node: Node, *arrays: Array) -> _Task:
    """Return what there is to do for a node.

    Raises:
        NotNative: There is no telling how much, or it is too much.
    """
    if node.operator == "GatherElements":  # the evaluator counts indices round and round the axis, step by step
        raise NotNative("no indices, or of no numbers")
    named = dict(zip(filter(None, node.inputs), arrays, strict=True))
    factor = _ELEMENT_COST if node.operator in _ELEMENTS else 1
    cost = factor * sum(array.nbytes for array in named.values())
    model, fed = _model_of(node, named)
    results = described(model)
    sizes = [_bytes(dtype, shape) for dtype, shape in results.values()]
    if node.operator in _GROWING and None in sizes:
        raise NotFolded("there is no telling the size of its result")
    if node.operator == "MatMul":
        if not arrays or not all(array.ndim for array in arrays):
            raise NotNative("a product of nothing, or of what has no axes")
        factor = max(array.shape[-1] for array in arrays)
    size = sum(size or 0 for size in sizes)
    if size > _MAX_BYTES:
        raise NotFolded("its result is too large to be computed beforehand")
    types = [results.get(value.name, (None, None))[0] for value in model.graph.output]
    return _Task(cost + factor * size, model, fed, types)


def _results(task: _Task) -> Sequence[Array]:
    """Return what the evaluator makes of a task.

    Raises:
        NotNative: It cannot, or it is no tensor.
        NotFolded: It makes another type than the operator has, as numpy does of sums of INT32.
    """
    try:
        with np.errstate(all="ignore"):
            results: Any = evaluator_of(task.model).run(None, dict(task.fed))
    except Exception as error:  # not every node is valid
        raise NotNative(f"it cannot be computed beforehand ({error})") from None
    arrays = [np.asarray(result) for result in results if isinstance(result, np.ndarray | np.generic)]
    # Of an operand that is not there the evaluator makes arrays of nothing.
    if len(arrays) < len(results) or any(None in array.flat for array in arrays if array.dtype == object):
        raise NotNative("its result is no tensor")
    for array, dtype in zip(arrays, task.types, strict=True):
        if dtype is not None and dtype.kind in "biuf" and array.dtype != dtype:
            raise NotFolded(f"its result is computed beforehand as {array.dtype}, not as {dtype}")
    return arrays


def _model_of(node: Node, arrays: Mapping[str, Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of a node, and what it is fed: large arrays, which no shape depends on and copies of cost time."""
    fed = {name: array for name, array in arrays.items() if array.size > LONGEST_SHAPE and array.dtype != object}
    graph = onnx.helper.make_graph(
        [node.proto],
        "folded",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in fed.items()
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.outputs if name],
        [
            onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
            for name, array in arrays.items()
            if name not in fed
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, node.version)]), fed


def _bytes(dtype: np.dtype[Any] | None, shape: Sequence[int] | None) -> int | None:
    return None if dtype is None or shape is None else dtype.itemsize * math.prod(shape)


# Each round finds the shapes that depend on those of the round before.
_MOST_ROUNDS: Final = 32


def propagated(
    model: onnx.ModelProto, nodes: Sequence[Node]
) -> Mapping[str, tuple[np.dtype[Any] | None, tuple[int, ...] | None]]:
    """Return what ``described`` does, and what follows where nodes compute with shapes.

    Onnx's own propagation of data takes time without a bound.

    Args:
        model: Of these nodes alone, in this order. It is changed. Constants of more than ``LONGEST_SHAPE`` elements
            are better given as inputs.
    """
    known = described(model)
    wanted = [value.name for value in model.graph.output]
    if all(None not in known.get(name, (None, None)) for name in wanted):
        return known
    folding = Folding(granted=1 << 20)
    values: dict[str, Value] = {
        tensor.name: Constant(onnx.numpy_helper.to_array(tensor)) for tensor in model.graph.initializer
    }
    shapes = {name: shape for name, (_, shape) in known.items()}
    shapes |= {value.name: shape_of(value) for value in model.graph.input}
    for _ in range(_MOST_ROUNDS):
        found = _found(nodes, values, shapes, folding)
        if not found:
            break
        values |= found
        for node, proto in zip(nodes, model.graph.node, strict=True):
            if node.outputs[0] in found:
                constant = onnx.numpy_helper.from_array(np.asarray(found[node.outputs[0]].array, order="C"))
                proto.CopyFrom(onnx.helper.make_node("Constant", [], [node.outputs[0]], value=constant))
        known = described(model)
        shapes |= {name: shape for name, (_, shape) in known.items()}
    return known


def _found(
    nodes: Sequence[Node],
    values: Mapping[str, Value],
    shapes: Mapping[str, tuple[int, ...] | None],
    folding: Folding,
) -> dict[str, Constant]:
    """Return the values of nodes with one output that read shapes, or small constants alone."""
    found: dict[str, Constant] = {}
    for node in nodes:
        if len(node.outputs) != 1 or node.outputs[0] in values or set(node.reads) - set(node.inputs):
            continue
        inputs = [found.get(name, values.get(name)) if name else None for name in node.inputs]
        shape = shapes.get(node.inputs[0]) if node.inputs else None
        try:
            if (node.domain, node.operator) in (("", "Shape"), ("", "Size")):
                if shape is None:
                    continue
                ends = slice(node.attributes.get("start", 0), node.attributes.get("end"))
                number: Any = shape[ends] if node.operator == "Shape" else math.prod(shape)
                result = Constant(np.array(number, np.int64))
            elif all(value is not None or not name for name, value in zip(node.inputs, inputs, strict=True)):
                [result] = folding(node, inputs)
            else:
                continue
        except (NotNative, ArithmeticError, TypeError, ValueError):  # a run tells what is wrong with it
            continue
        if result.array.size <= LONGEST_SHAPE:
            found[node.outputs[0]] = result
    return found
