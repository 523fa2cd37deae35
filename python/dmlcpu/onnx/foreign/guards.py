"""Guards: nodes before those that onnxruntime ends the process on, of shapes that may be told only by a run.

A guard hands on an operand as it is, without a copy, unless its shape is one that its reader cannot take. Then it looks
up what is not there, which onnxruntime refuses, and tells by its name what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.onnx.models.nodes import FreeNames, short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within, names_in

__all__ = ["add_guards", "told_by_guard"]

_MARK: Final = "guard: "
_OWN: Final = "com.microsoft"
# Versions of ONNX's operators from which on there are those that guards are made of, for integers.
_SINCE: Final = 7


class _Nodes:
    """Nodes of a graph that is being made.

    Args:
        names: Those that are left.
        nodes: Where nodes are added.
    """

    def __init__(self, names: FreeNames, nodes: list[onnx.NodeProto]) -> None:
        self._names, self._nodes = names, nodes

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node; return its result."""
        result = self._names.like(f"guard/{operator}")
        self._nodes.append(onnx.helper.make_node(operator, inputs, [result], name or result, **attributes))
        return result

    def constant(self, number: int, *, is_list: bool = False) -> str:
        """Return a number, or a list of it alone."""
        array = np.array([number] if is_list else number, np.int64)
        return self.add("Constant", value=onnx.numpy_helper.from_array(array))

    def size_is(self, value: str, number: int) -> str:
        """Return whether a value has so many elements."""
        return self.add("Equal", self.add("Size", value), self.constant(number))

    def length(self, value: str, axis: int) -> str:
        """Return the length of an axis."""
        return self.add("Gather", self.add("Shape", value), self.constant(axis))

    def is_nothing_from(self, value: str, axis: int) -> str:
        """Return whether an axis, or one behind it, has no length."""
        return self.add("Equal", self.length(self.add("Flatten", value, axis=axis), 1), self.constant(0))


# What is wrong with an operand: given nodes, its reader and its place, a condition.
_Wrong = Callable[[_Nodes, onnx.NodeProto, int], str]


def _is_empty(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    return nodes.size_is(node.input[place], 0)


def _is_empty_beside(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    """No elements, while operand 0 has some."""
    are_none = nodes.size_is(node.input[0], 0)
    return nodes.add("And", _is_empty(nodes, node, place), nodes.add("Not", are_none))


def _is_no_square(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    value = node.input[place]
    return nodes.add("Not", nodes.add("Equal", nodes.length(value, -1), nodes.length(value, -2)))


def _is_no_single(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    return nodes.add("Not", nodes.size_is(node.input[place], 1))


def _is_no_vector(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    """No vector, or an empty one."""
    value = node.input[place]
    is_vector = nodes.size_is(nodes.add("Shape", value), 1)
    return nodes.add("Or", nodes.add("Not", is_vector), nodes.size_is(value, 0))


def _is_zero(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    return nodes.add("Not", nodes.add("Cast", node.input[place], to=onnx.TensorProto.BOOL))


def _are_of_a_vector(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    """Several scales, those of columns, where operand 1 is a vector."""
    is_vector = nodes.size_is(nodes.add("Shape", node.input[1]), 1)
    return nodes.add("And", _is_no_single(nodes, node, place), is_vector)


def _is_nothing_behind(nodes: _Nodes, node: onnx.NodeProto, place: int) -> str:
    """Some parts along the node's axis, or the first, and no elements behind it."""
    value, axis = node.input[place], next((each.i for each in node.attribute if each.name == "axis"), 0)
    if axis == -1:  # each part is an element
        return nodes.add("Cast", nodes.constant(0), to=onnx.TensorProto.BOOL)
    are_some = nodes.add("Cast", nodes.length(value, axis), to=onnx.TensorProto.BOOL)
    return nodes.add("And", are_some, nodes.is_nothing_from(value, axis + 1))


@dataclass(frozen=True, slots=True)
class _Guard:
    """What onnxruntime ends the process on.

    Attributes:
        wrong: Computes whether an operand is that.
        wanted: What an operand has to be, for a message.
        places: Of these operands; None for all.
        attribute: Without which it does not.
    """

    wrong: _Wrong
    wanted: str
    places: Sequence[int] | None
    attribute: str = ""


# By filters without elements it would run for ever.
_FILTER: Final = _Guard(_is_nothing_behind, "some elements in each filter", (1,))
# What weights pass, which onnxruntime looks for before a convolution of codes.
_OF_WEIGHTS: Final = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Transpose"})
_GUARDS: Final[Mapping[tuple[str, str], Sequence[_Guard]]] = {
    ("", "Conv"): (_FILTER,),
    ("", "GRU"): (_Guard(_is_empty, "some elements", (0,)),),
    ("", "LSTM"): (_Guard(_is_empty, "some elements", (0,)),),
    ("", "STFT"): (
        _Guard(_is_no_vector, "one axis and some elements", (2,)),
        _Guard(_is_zero, "a number above 0", (3,)),
    ),
    ("", "Unique"): (_Guard(_is_nothing_behind, "some elements behind the axis", (0,), "axis"),),
    ("ai.onnx.ml", "FeatureVectorizer"): (_Guard(_is_empty, "some elements", None),),
    (_OWN, "DynamicQuantizeLSTM"): (_Guard(_is_empty, "some elements", (0,)),),
    (_OWN, "DynamicQuantizeMatMul"): (_Guard(_are_of_a_vector, "one element, as input 1 is a vector", (2,)),),
    (_OWN, "FusedConv"): (_FILTER,),
    (_OWN, "Inverse"): (_Guard(_is_no_square, "square matrices", (0,)),),
    (_OWN, "MatMulIntegerToFloat"): (_Guard(_are_of_a_vector, "one element, as input 1 is a vector", (3,)),),
    (_OWN, "QAttention"): (_Guard(_is_empty, "some elements", (0,)),),
    (_OWN, "QLinearAveragePool"): (_Guard(_is_empty, "some elements", (0,)),),
    (_OWN, "QLinearWhere"): (_Guard(_is_no_single, "one element", (2, 3, 5, 6, 7, 8)),),
    (_OWN, "SkipLayerNormalization"): (_Guard(_is_empty_beside, "some elements", (1,)),),
    (_OWN, "SkipSimplifiedLayerNormalization"): (_Guard(_is_empty_beside, "some elements", (1,)),),
    (f"{_OWN}.nchwc", "Conv"): (_FILTER,),
}


def add_guards(model: onnx.ModelProto) -> None:
    """Add guards to the nodes of a model, those within others included.

    Args:
        model: Of some nodes for onnxruntime; is changed.
    """
    versions = {short_domain(entry.domain): entry.version for entry in model.opset_import}
    if versions.get("", 0) < _SINCE or not any(_has_guarded(model.graph)):
        return
    _guard(model.graph, FreeNames(names_in(model.graph)))


def _has_guarded(graph: onnx.GraphProto) -> Iterator[bool]:
    for node in graph.node:
        yield (short_domain(node.domain), node.op_type) in _GUARDS or _moves_axes(node)
        for inner in graphs_within(node.attribute):
            yield from _has_guarded(inner)


def _are_filters(tensor: onnx.TensorProto) -> bool:
    return len(tensor.dims) > 1 and 0 not in tensor.dims


def _guard(graph: onnx.GraphProto, names: FreeNames, outer: Iterable[str] = ()) -> None:
    """Guard the nodes of a graph; of filters that are known to have elements, also in graphs around it, none is."""
    guarded: list[onnx.NodeProto] = []
    filters = {*outer, *(tensor.name for tensor in graph.initializer if _are_filters(tensor))}
    nodes = _Nodes(names, guarded)
    for node in graph.node:
        if node.op_type == "Constant":
            is_known = any(_are_filters(each.t) for each in node.attribute if each.name == "value")
        else:
            is_known = node.op_type in _OF_WEIGHTS and node.input[0] in filters
        if is_known:
            filters.update(node.output)
        for guard, place in _guards_of(node, filters):
            condition = guard.wrong(nodes, node, place)
            told = f"{node.name or node.op_type}: input {place} has to be of {guard.wanted}"
            node.input[place] = _handed_on(nodes, node.input[place], condition, told)
        if _moves_axes(node):
            _guard_scan(nodes, node, names)
        for inner in graphs_within(node.attribute):
            _guard(inner, names, filters)
        guarded.append(node)
    del graph.node[:]
    graph.node.extend(guarded)


def _guards_of(node: onnx.NodeProto, filters: Collection[str]) -> Iterator[tuple[_Guard, int]]:
    """Yield the guards of a node's operands, and the operands' places, but for filters that are known."""
    for guard in _GUARDS.get((short_domain(node.domain), node.op_type), ()):
        if guard.attribute and all(attribute.name != guard.attribute for attribute in node.attribute):
            continue
        for place in range(len(node.input)) if guard.places is None else guard.places:
            if place >= len(node.input) or not node.input[place]:
                continue
            if guard is not _FILTER or node.input[place] not in filters:  # mostly they are: weights are constants
                yield guard, place


def _handed_on(nodes: _Nodes, value: str, condition: str, told: str) -> str:
    """Return a value that is refused where a condition holds."""
    place = nodes.add("Cast", condition, to=onnx.TensorProto.INT64)
    zero = nodes.add("Gather", nodes.constant(0, is_list=True), place, name=_MARK + told)
    return nodes.add("Reshape", value, nodes.add("Add", nodes.add("Shape", value), zero))


def _moves_axes(node: onnx.NodeProto) -> bool:
    """Return whether a Scan walks along other axes than the first ones: it moves them itself, if there is something."""
    return node.op_type == "Scan" and any(
        any(attribute.ints) for attribute in node.attribute if attribute.name in ("scan_input_axes", "scan_output_axes")
    )


def _guard_scan(nodes: _Nodes, scan: onnx.NodeProto, names: FreeNames) -> None:
    attributes = {attribute.name: attribute for attribute in scan.attribute}
    walked = "what it walks along other axes than the first has to be of some elements behind them"
    told = f"{scan.name or scan.op_type}: {walked}"
    inputs = attributes["scan_input_axes"].ints[:] if "scan_input_axes" in attributes else []
    for place, axis in enumerate(inputs, len(scan.input) - len(inputs)):
        if axis and place >= 0:
            condition = nodes.is_nothing_from(scan.input[place], axis)
            scan.input[place] = _handed_on(nodes, scan.input[place], condition, told)
    outputs = attributes["scan_output_axes"].ints[:] if "scan_output_axes" in attributes else []
    body = attributes["body"].g
    added: list[onnx.NodeProto] = []
    within = _Nodes(names, added)
    for place, axis in enumerate(outputs, len(body.output) - len(outputs)):
        if (axis == 1 or axis < 0) and place >= 0:  # others it moves well
            value = body.output[place].name
            body.output[place].name = _handed_on(within, value, within.size_is(value, 0), told)
    body.node.extend(added)


_OF_GUARD: Final = re.compile(rf"Name:'{_MARK}(.*?)' Status Message:", re.DOTALL)


def told_by_guard(message: str) -> str:
    """Return what a guard says in a message of onnxruntime's; "" if there is none."""
    found = _OF_GUARD.search(message)
    return found[1] if found else ""
