"""Which nodes another runtime takes together, which of the others it is, and what it needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.dtypes import CODE_TYPES
from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.coded_weights import ConstantOfBlocks
from dmlcpu.onnx.constant_arrays import Array, Constant
from dmlcpu.onnx.foreign.array_parts import is_function_of_arrays, is_shaped_by_a_run
from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.nodes import Node, reaching, short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.onnx.values import Dequantized, Tensor, Value, element_type

__all__ = [
    "ANCHORS",
    "are_readable",
    "check_complete",
    "is_along_axis",
    "is_for_the_reference",
    "nodes_of_codes",
    "taken_together",
]

# Where nodes that follow a foreign one in floating point end: here codes begin.
ANCHORS: Final = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul",
        "DynamicQuantizeLSTM",
    }
)
# What the slow path computes where there is no onnxruntime: ONNX's quantized operators, on types without a kernel.
_QUANTIZED: Final = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger"}
)


def taken_together(
    nodes: Sequence[Node], reasons: Mapping[str, str], values: Mapping[str, Value]
) -> tuple[list[Node], list[Node], bool]:
    """Choose nodes that another runtime runs as one part: those without a kernel, and what follows in floating point.

    Of sequences that these make the later readers go with them, and all that leads to those. If there are none, nodes
    that functions of arrays compute are taken alone, as what follows them may have kernels.

    Args:
        nodes: That are not native, in order.
        reasons: Why, by the names of those whose inputs are all there.
        values: What is there.

    Returns:
        The nodes, those that remain, and whether onnx's reference evaluator is meant.

    Raises:
        InvalidModelError: No node can be taken.
    """
    alone = [node for node in nodes if _is_for_arrays(node, values)]
    taken: list[Node] = []
    rest: list[Node] = []
    made: set[str] = set()
    by_reference = False
    for node in nodes:
        known = all(name in values or name in made for name in node.reads)
        follows = any(name in made for name in node.reads)
        wanted = known and (node.name in reasons or (follows and not _is_anchor(node, values))) and node not in alone
        if wanted and not taken:
            by_reference = is_for_the_reference(node, values)
        # Of the reference's nodes none follows another: the types of what they make are not known yet.
        if wanted and is_for_the_reference(node, values) == by_reference and not (by_reference and follows):
            taken.append(node)
            made.update(filter(None, node.outputs))
        else:
            rest.append(node)
    if alone and not taken:
        return alone, [node for node in nodes if node not in alone], False
    if not taken:
        raise InvalidModelError(f"node {nodes[0]}: it cannot be planned")
    while (held := _sequences(taken)) and (readers := [node for node in rest if not held.isdisjoint(node.reads)]):
        lead = reaching(rest, {name for node in readers for name in node.outputs})
        taken = [node for node in nodes if node in taken or node in lead]
        rest = [node for node in rest if node not in lead]
    return taken, rest, by_reference


def _is_for_arrays(node: Node, values: Mapping[str, Value]) -> bool:
    """Return whether a function of arrays computes a node from what is there."""
    if not all(name in values for name in node.reads):
        return False
    types = {name: element_type(values[name]) for name in node.reads}
    constants = [name for name in node.reads if isinstance(values[name], Constant)]
    return is_function_of_arrays(node, types) or is_shaped_by_a_run(node, types, constants)


# Operators that make sequences, or what may hold one.
_OF_SEQUENCES: Final = frozenset(
    {
        "Optional", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceMap",
        "SplitToSequence", "ZipMap",
    }
)  # fmt: skip


def _sequences(nodes: Sequence[Node]) -> set[str]:
    """Return what nodes write that is no tensor: no part hands it on, so that who reads it has to be of the same."""
    names: set[str] = set()
    for node in nodes:
        within = (output.type for graph in graphs_within(node.proto.attribute) for output in graph.output)
        if (
            node.operator in _OF_SEQUENCES
            or (node.operator in ("Identity", "OptionalGetElement") and not names.isdisjoint(node.reads))
            or any(made.WhichOneof("value") in ("sequence_type", "optional_type") for made in within)
        ):
            names.update(filter(None, node.outputs))
    return names


def _is_anchor(node: Node, values: Mapping[str, Value]) -> bool:
    """Return whether codes begin or end here, of a type that operators take."""
    if node.operator in ("QuantizeLinear", "DequantizeLinear") and len(node.inputs) > 2:
        point = values.get(node.inputs[2])
        if isinstance(point, Constant) and point.array.dtype not in CODE_TYPES:
            return False
    return node.operator in ANCHORS or node.operator.startswith(("QLinear", "QGemm", "QAttention"))


def is_for_the_reference(node: Node, values: Mapping[str, Value]) -> bool:
    """Return whether a node reads or writes what onnxruntime takes no arrays of, or there is no onnxruntime."""
    if node.domain == "" and node.operator in _QUANTIZED and not has_onnxruntime():
        return True
    given = [values[name] for name in node.reads if name in values]
    types = [value.dtype if isinstance(value, Tensor) else None for value in given]
    if node.operator in _QUANTIZED:
        types += [value.dtype for value in given if isinstance(value, Constant)]
    named = (node.attributes.get(name, 0) for name in ("to", "dtype", "output_dtype"))
    types += [_type_of(number) for number in named]
    return any(dtype is not None and dtype.type.__module__ != "numpy" for dtype in types)


def _type_of(number: Any) -> np.dtype[Any] | None:
    """Return the type that an attribute names; None if it names none."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number)) if number else None
    except (KeyError, TypeError, ValueError):
        return None


# Constant codes that onnxruntime dequantizes, and from which version of ONNX's operators on: in its own domain always.
_DEQUANTIZED_FROM: Final = {
    "uint8": 10, "int8": 10, "int32": 10, "uint16": 21, "int16": 21, "uint4": 21, "int4": 21,
}  # fmt: skip
_COLUMNS_FROM: Final = 13
_BLOCKS_FROM: Final = 21


def nodes_of_codes(nodes: Sequence[Node], writers: Mapping[str, Node], values: Mapping[str, Value]) -> tuple[Node, ...]:
    """Return the other nodes that dequantize constants which nodes read beside dequantized codes, such as weights.

    With floats in place of these onnxruntime quantizes them once more, by a scale for the whole tensor.

    Args:
        nodes: That onnxruntime runs.
        writers: Of the constants that are dequantized, and of those that follow from such, in order.
        values: The constants among others.
    """
    dequantized = {name for node in nodes if node.operator == "DequantizeLinear" for name in node.outputs}
    waiting = [name for node in nodes if not dequantized.isdisjoint(node.inputs) for name in node.reads]
    own, found = set(nodes), set[Node]()
    while waiting:
        node = writers.get(waiting.pop())
        if node is not None and node not in own and node not in found and _is_dequantized_elsewhere(node, values):
            found.add(node)
            waiting.extend(node.reads)
    return tuple(node for node in writers.values() if node in found)


def _is_dequantized_elsewhere(node: Node, values: Mapping[str, Value]) -> bool:
    """Return whether onnxruntime takes a node: rules are less strict where codes are constant."""
    if node.operator != "DequantizeLinear":
        return True  # what moves codes
    value = values[node.outputs[0]]
    if isinstance(value, ConstantOfBlocks):
        dtype, least = value.codes.dtype, _BLOCKS_FROM
    else:
        assert isinstance(value, Dequantized)
        shapes = {values[name].shape for name in node.inputs[1:] if name}
        are_vectors = shapes <= {(), (1,)} or (len(shapes) == 1 and max(map(len, shapes)) == 1)
        if not are_vectors or (value.dtype == np.int32 and value.zero_point.any()):
            return False
        if _axis_is_beyond(node, len(value.shape), value.scale.size):
            return False
        dtype, least = element_type(values[node.inputs[0]]), _COLUMNS_FROM if value.scale.size > 1 else 1
    known = _DEQUANTIZED_FROM.get(dtype.name)
    return known is not None and (node.domain != "" or node.version >= max(known, least))


def _axis_is_beyond(node: Node, rank: int, scales: int) -> bool:
    """Return whether scales are along an axis that the codes lack, which rules take for the only one they have."""
    return scales > 1 and int(node.attributes.get("axis", 1)) >= rank


def are_readable(nodes: Sequence[Node], constants: Mapping[str, Array]) -> bool:
    """Return whether onnxruntime takes the axes of all constant codes that nodes dequantize, as they are written."""
    for node in nodes:
        if node.operator == "DequantizeLinear" and {*node.inputs[:2]} <= constants.keys():
            codes, scales = (constants[name] for name in node.inputs[:2])
            if _axis_is_beyond(node, codes.ndim, scales.size):
                return False
    return True


# Operators that onnxruntime ends the process on where there is nothing to compute.
_NEVER_EMPTY: Final = frozenset({"LSTM", "GRU", "DynamicQuantizeLSTM", "Einsum"})
# Products of codes, of whose results onnxruntime writes nothing where there is nothing to add.
_PRODUCTS: Final = frozenset({"MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"})
# Operators each of whose operands onnxruntime reads, by domain.
_WHOLE: Final = {
    "": frozenset({"Einsum", "Max", "Mean", "Min", "Sum"}),
    "com.microsoft": frozenset({"QLinearConcat"}),
}
# Those of com.microsoft that it reads operands of which may be left out, by their indices.
_READ_ALWAYS: Final[Mapping[str, Mapping[int, str]]] = {
    "Attention": {2: "bias"},
    "QLinearLeakyRelu": {4: "input 4"},
    "QLinearSigmoid": {4: "input 4"},
    "QMoE": {3: "input 3", 6: "input 6"},
}
# Those of com.microsoft on whose operands of no last axis it ends the process, by these operands' indices.
_LAST_AXES: Final = {"MultiHeadAttention": (0, 2), "RotaryEmbedding": (0,)}


def is_along_axis(node: Node) -> bool:
    """Return whether axes of a second operand are not the last ones of the first: before version 7 a node names one."""
    is_early = node.domain == "" and node.version < 7
    return is_early and bool(node.attributes.get("broadcast", 0)) and "axis" in node.attributes


def check_complete(nodes: Sequence[Node], reasons: Mapping[str, str], values: Mapping[str, Value]) -> None:
    """Check that nodes have what onnxruntime ends the process without, and nothing that is passed over elsewhere.

    Args:
        nodes: That it would run.
        reasons: Why, by the node's name.
        values: What they are given, as far as it is known.

    Raises:
        InvalidModelError: One has not, or has.
    """
    for node in nodes:
        if is_along_axis(node):
            raise InvalidModelError(
                f"node {node}: neither a kernel for it nor another runtime knows its attribute 'axis'"
            )
        if (missing := _lacking(node, values)) is not None:
            reason = reasons.get(node.name, "it follows a node without a kernel")
            wrong = f"it has no {missing}, without which onnxruntime cannot run it"
            raise InvalidModelError(f"node {node}: {wrong} ({reason})")


def _lacking(node: Node, values: Mapping[str, Value]) -> str | None:
    """Return what a node lacks without which onnxruntime ends the process, if it does."""
    read = node.inputs if node.operator == "Einsum" else node.inputs[:1]
    is_empty = node.operator in _NEVER_EMPTY and any(name in values and 0 in values[name].shape for name in read)
    if node.operator in _PRODUCTS and node.inputs and node.inputs[0] in values:
        shape = values[node.inputs[0]].shape
        is_empty = 0 in shape[-1:] and 0 not in shape[:-1]
    if node.operator == "CausalConvWithState" and node.domain == "" and node.inputs[0] in values:
        is_empty = 0 in values[node.inputs[0]].shape[1:2]  # its channels are groups
    if node.domain == "com.microsoft" and node.operator in _LAST_AXES:
        operands = [node.inputs[place] for place in _LAST_AXES[node.operator] if place < len(node.inputs)]
        is_empty = any(0 in values[name].shape[-1:] for name in operands if name in values)
    return _lacking_within(node.proto) or ("elements to compute with" if is_empty else None)


def _lacking_within(proto: onnx.NodeProto) -> str | None:
    """Return the same of what a node, or one within it, is told alone: operands left out."""
    domain = short_domain(proto.domain)
    if (domain, proto.op_type) == ("com.microsoft", "AttnLSTM"):
        return "operands that are checked there"
    if domain == "com.microsoft" and proto.op_type in _READ_ALWAYS:
        for index, name in _READ_ALWAYS[proto.op_type].items():
            if index >= len(proto.input) or not proto.input[index]:
                return name
    if proto.op_type in _WHOLE.get(domain, ()) and not all(proto.input):
        return f"input {[*proto.input].index('')}"
    within = (node for graph in graphs_within(proto.attribute) for node in graph.node)
    return next(filter(None, map(_lacking_within, within)), None)
