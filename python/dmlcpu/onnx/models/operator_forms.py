"""What nodes of ONNX's operators and onnxruntime's may be given, by the version of these that a model imports.

``operator_forms.txt`` has a line for each form of an operator: its name, behind that of its domain if it has one, the
version from which on it has this form, its inputs, its outputs and its attributes. Inputs and outputs are a character
each (``1`` is needed, ``?`` may be absent, ``*`` is any number of further ones, ``+`` at least one), or ``-`` where
there are none; an attribute that is needed has ``!`` behind its name. A test compares the file with the schemas of onnx
and onnxruntime, which are not read here: the first of them takes as long as it takes to open a small model.

Operators of com.microsoft get further operands and attributes without a new version. What the file does not have of
them is left to the onnxruntime that is there, which refuses what it does not know; no rule takes such a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from dmlcpu.errors import InvalidModelError
from dmlcpu.onnx.models.nodes import Node, short_domain
from dmlcpu.onnx.models.subgraphs import graphs_within
from dmlcpu.shown_values import counted, nearest

__all__ = ["check_forms", "forms_of", "is_of_onnx", "unknown_part"]

# What onnxruntime has, and some exporters write, in models of versions that ONNX has them not in: anything goes there.
_ALWAYS_IN_ONNXRUNTIME: Final = frozenset(
    {"GroupNormalization", "LayerNormalization", "MeanVarianceNormalization", "ThresholdedRelu"}
)
# Operators of com.microsoft that may have what ONNX's of the same name have, as blocks in models of earlier versions.
_AS_IN_ONNX: Final = frozenset({"com.microsoft.DequantizeLinear", "com.microsoft.QuantizeLinear"})
# The domain whose operators get more without a new version.
_OPEN: Final = "com.microsoft"
_MANY: Final = 1 << 31
_KINDS: Final[Mapping[str, int]] = dict(onnx.AttributeProto.AttributeType.items())
_OF_GRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_NAMES_OF_KINDS: Final = {number: name for name, number in _KINDS.items()}
# As nodes have attributes of most kinds: a type, or of a tuple what stands for that of its elements.
_LISTS: Final[Mapping[type, str]] = {int: "INTS", float: "FLOATS"}
_TYPES: Final[Mapping[str, Any]] = {
    "INT": int,
    "FLOAT": float,
    "STRING": bytes,
    "TENSOR": np.ndarray,
    "INTS": "INTS",
    "FLOATS": "FLOATS",
}


@dataclass(frozen=True, slots=True)
class OperatorForm:
    """What a node of an operator may be given.

    Attributes:
        since: The version from which on this holds.
        absent: Why there may be no such node; "" where there may.
        inputs, outputs: A character for each, as in the file.
        input_counts, output_counts: How many there may be.
        kinds: Of its attributes, by name.
        types: Of those as ``Node`` has them, if they are of a kind that most attributes are of.
        needed: The names of the attributes that it has to have.
        is_open: Whether it may have got more of them in the same version.
    """

    since: int
    absent: str = ""
    inputs: str = ""
    outputs: str = ""
    input_counts: range = range(0)
    output_counts: range = range(0)
    kinds: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    is_open: bool = False

    def fits(self, node: Node) -> bool:
        """Return whether a node is as most valid ones are, which is seen without its proto."""
        if len(node.inputs) not in self.input_counts or len(node.outputs) not in self.output_counts:
            return False
        attributes, types = node.attributes, self.types
        for name, value in attributes.items():
            kind = type(value)
            if kind is not types.get(name) and not (
                kind is tuple and value and _LISTS.get(type(value[0])) is types.get(name, "")
            ):
                return False
        if self.needed and not attributes.keys() >= self.needed:
            return False
        if attributes.get("num_outputs", len(node.outputs)) != len(node.outputs):
            return False
        return "" not in node.inputs and "" not in node.outputs

    def fits_proto(self, node: onnx.NodeProto) -> bool:
        """Return whether a node is as most valid ones are, without graphs within it."""
        inputs, outputs = node.input[:], node.output[:]
        if len(inputs) not in self.input_counts or len(outputs) not in self.output_counts:
            return False
        given = {attribute.name: attribute.type for attribute in node.attribute[:]}
        for name, kind in given.items():
            if kind in _OF_GRAPHS or kind != _KINDS.get(self.kinds.get(name, "")):
                return False
        if "num_outputs" in given or not given.keys() >= self.needed:
            return False
        return "" not in inputs and "" not in outputs


def check_forms(nodes: Iterable[Node], versions: Mapping[str, int]) -> None:
    """Check that nodes of operators that are known, and those within them, are given what these take.

    Args:
        nodes: Of a model.
        versions: Of the operators that it imports, by domain.

    Raises:
        InvalidModelError: One is not, or the version that the model imports has no such operator; the message names it.
    """
    forms: dict[str, OperatorForm | None] = {}  # looking one up here is quick
    for node in nodes:
        operator = f"{node.domain}.{node.operator}" if node.domain else node.operator
        form = forms[operator] if operator in forms else forms.setdefault(operator, _form_of(operator, node.version))
        if form is not None and not form.fits(node):
            _check(node.proto, str(node), form, versions)


def _check(proto: onnx.NodeProto, node: str, form: OperatorForm | None, versions: Mapping[str, int]) -> None:
    attributes = proto.attribute[:]
    if form is not None:
        if form.absent:
            version = versions[short_domain(proto.domain)]
            raise InvalidModelError(f"node {node}: {form.absent}; the model imports version {version}")
        most = _MANY if form.is_open else 0
        _check_operands(node, "input", proto.input[:], form.inputs, form.input_counts, most)
        _check_operands(node, "output", proto.output[:], form.outputs, form.output_counts, most)
        _check_attributes(node, form, {attribute.name: attribute.type for attribute in attributes})
        told = next((attribute.i for attribute in attributes if attribute.name == "num_outputs"), len(proto.output))
        if told != len(proto.output):
            raise InvalidModelError(
                f"node {node}: got {counted(len(proto.output), 'output')}, expected {told}, its num_outputs"
            )
    for graph in graphs_within(attributes):
        for index, inner in enumerate(graph.node):
            domain, kind = short_domain(inner.domain), inner.op_type
            operator = f"{domain}.{kind}" if domain else kind
            own = _form_of(operator, versions[domain]) if domain in versions else None
            if own is None or not own.fits_proto(inner):
                _check(inner, f"{operator} ({inner.name or f'{kind}_{index}'})", own, versions)


@cache
def _form_of(operator: str, version: int) -> OperatorForm | None:
    """Return the form of an operator; None if anything goes, as of operators that are not known."""
    forms = forms_of(operator)
    if not forms or operator == "Constant":  # which onnxruntime takes for an initializer before it looks at nodes
        return None
    form = next((form for form in reversed(forms) if form.since <= version), None)
    if form is None:
        form = OperatorForm(
            0, f"{_owner(operator)} has this operator from version {forms[0].since} of its operators on"
        )
    return None if form.absent and operator in _ALWAYS_IN_ONNXRUNTIME else form


def unknown_part(node: Node) -> str:
    """Return what a node of com.microsoft has that is not in the file, in words; "" if nothing."""
    if node.domain != _OPEN:
        return ""
    form = _form_of(f"{node.domain}.{node.operator}", node.version)
    if form is None or form.fits(node):
        return ""
    for kind, names, counts in (
        ("input", node.inputs, form.input_counts),
        ("output", node.outputs, form.output_counts),
    ):
        if len(names) >= counts.stop:
            return f"{kind} {counts.stop - 1}"
    return next((f"attribute {name!r}" for name in node.attributes if _is_unknown(name, form)), "")


def _is_unknown(attribute: str, form: OperatorForm) -> bool:
    return attribute not in form.kinds and not attribute.startswith("__")  # by which tools mark what is their own


def _check_operands(node: str, kind: str, names: Sequence[str], places: str, counts: range, most_of_all: int) -> None:
    if len(names) not in counts and not counts.stop <= len(names) <= most_of_all:
        most = counts.stop - 1
        wanted = f"{counts.start} or more" if most >= _MANY else f"{counts.start}"
        if counts.start < most < _MANY:
            wanted = f"{counts.start} to {most}"
        raise InvalidModelError(f"node {node}: got {counted(len(names), kind)}, expected {wanted}")
    for index, (name, place) in enumerate(zip(names, places, strict=False)):
        if not name and place == "1":
            raise InvalidModelError(f"node {node}: its {kind} {index} is missing")


def _check_attributes(node: str, form: OperatorForm, given: Mapping[str, int]) -> None:
    for name, kind in given.items():
        wanted = form.kinds.get(name)
        if wanted is not None and kind != _KINDS[wanted]:
            got = _NAMES_OF_KINDS.get(kind, f"kind {kind}")
            raise InvalidModelError(f"node {node}: got {got} for its attribute {name!r}, expected {wanted}")
        if _is_unknown(name, form) and not form.is_open:
            raise InvalidModelError(f"node {node}: {_of_unknown_attribute(node, form, name)}")
    for name in sorted(form.needed - given.keys()):
        raise InvalidModelError(f"node {node}: its attribute {name!r} is missing")


def _of_unknown_attribute(node: str, form: OperatorForm, name: str) -> str:
    """Return what is wrong with an attribute that an operator does not have in a version."""
    having = [other.since for other in forms_of(node.split(" ")[0]) if name in other.kinds]
    if having:
        owner = _owner(node.split(" ")[0])
        when = (
            f"from version {having[0]} of {owner}'s operators on" if having[0] > form.since else "in earlier versions"
        )
        return f"it has an attribute {name!r} {when}"
    near = nearest(name, form.kinds)
    wanted = f"{near!r}" if near else f"one of {', '.join(form.kinds)}" if form.kinds else "none"
    return f"got an attribute {name!r}, expected {wanted}"


def _owner(operator: str) -> str:
    """Return whose operator it is."""
    return operator.rpartition(".")[0] or "ONNX"


@cache
def forms_of(operator: str) -> tuple[OperatorForm, ...]:
    """Return the forms of an operator by version; none if it is not known.

    Args:
        operator: Its name, behind that of its domain if it has one, as in the file.
    """
    return tuple(_parsed(line, operator) for line in _lines().get(operator, ()))


def is_of_onnx(operator: str) -> bool:
    """Return whether ONNX has an operator; of those that are known onnx is not asked, which reads all its schemas."""
    return bool(forms_of(operator)) or onnx.defs.has(operator)


@cache
def _lines() -> Mapping[str, Sequence[str]]:
    """Return the lines of the file by operator."""
    lines: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        operator, form = line.split(" ", 1)
        lines.setdefault(operator, []).append(form)
    return lines


def _parsed(line: str, operator: str) -> OperatorForm:
    owner = _owner(operator)
    since, inputs, *rest = line.split(" ")
    if inputs == "removed":
        return OperatorForm(int(since), f"{owner} has this operator no more from version {since} of its operators on")
    outputs, *attributes = rest
    pairs = [attribute.split(":") for attribute in attributes]
    kinds = {name.rstrip("!"): kind for name, kind in pairs}
    if operator in _AS_IN_ONNX:
        kinds |= forms_of(operator.rpartition(".")[2])[-1].kinds
    return OperatorForm(
        int(since),
        "",
        inputs,
        outputs,
        _counts(inputs),
        _counts(outputs),
        kinds,
        {name: _TYPES[kind] for name, kind in kinds.items() if kind in _TYPES},
        frozenset(name[:-1] for name, _ in pairs if name.endswith("!")),
        operator.rpartition(".")[0] == _OPEN,
    )


def _counts(places: str) -> range:
    """Return how many operands there may be."""
    places = places.strip("-")
    # Before further ones, optional operands are there by an empty name.
    least = max(places.rfind("1") + 1, places.rfind("+") + 1, places.rfind("*"))
    return range(least, _MANY + 1 if places.endswith(("*", "+")) else len(places) + 1)
