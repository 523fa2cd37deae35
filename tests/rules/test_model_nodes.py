"""Nodes of models, as rewriting makes others of them."""

from __future__ import annotations

import onnx

from dmlcpu.onnx.models.nodes import node_of


def test_a_node_with_other_inputs_tells_them_everywhere() -> None:
    """What graphs within it take from outside stays."""
    helper = onnx.helper
    outputs = [helper.make_empty_tensor_value_info("sum")]
    body = helper.make_graph([helper.make_node("Add", ["x", "outer"], ["sum"])], "body", [], outputs)
    proto = helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body)
    node = node_of(0, proto, {"": 17}, set())
    assert node.reads == ("count", "x", "outer")

    other = node.with_inputs(["most", "", "first", "most"])
    assert other.inputs == tuple(other.proto.input) == ("most", "", "first", "most")
    assert other.reads == ("most", "first", "x", "outer")
    assert (other.operator, other.attributes, other.outputs) == (node.operator, node.attributes, node.outputs)
    assert list(other.proto.attribute) == list(proto.attribute)
    assert tuple(node.proto.input) == node.inputs == ("count", "", "x")

    made = helper.make_node("Identity", ["ignored"], ["z"])
    last = node.with_inputs(["a"], made, operator="Identity", outputs=("z",))
    assert last.proto is made
    assert (last.inputs, tuple(made.input), last.reads) == (("a",), ("a",), ("a",))
    assert (last.operator, last.outputs, last.name) == ("Identity", ("z",), "loop")
