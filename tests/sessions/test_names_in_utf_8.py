"""Names of a model that are not UTF-8, which protobuf returns as bytes: each is told of, wherever it is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu
from command_line import failed
from onnx_models import Builder

TEXT = """
    <ir_version: 10, opset_import: ["" : 17, "own.domain" : 1, "far.domain" : 1], producer_name: "the.producer">
    g (float[image_count, 4] given, bool which) => (float[image_count, 4] result)
    <float[4] initializer = {1, 2, 3, 4}>
    {
        [the_node] between = Softmax <axis = 1> (given)
        [the_call] called = own.domain.own_function <own_alpha = 0.5> (between)
        result = If (which) <
            then_branch = then_graph () => (float[inner_count, 4] in_then) { in_then = Add (called, initializer) },
            else_branch = else_graph () => (float[n, 4] in_else)
                <float[4] inner_initializer = {1, 2, 3, 4}> {
                read = Identity (inner_initializer)
                in_else = LeakyRelu <alpha = 0.25> (called)
            }
        >
    }
    <domain: "own.domain", opset_import: ["" : 17, "far.domain" : 1]>
    own_function <own_alpha> (own_input) => (own_output)
    {
        in_function = Elu <alpha : float = @own_alpha> (own_input)
        own_output = HardSigmoid (in_function)
    }
"""
# Each with what holds it. A name that several places have is wrong in all of them, and told of one.
NAMES = {
    "own.domain": "domain that the model imports",
    "far.domain": "domain that the model imports",
    "image_count": "input",
    "given": "input",
    "which": "input",
    "result": "output",
    "initializer": "initializer",
    "the_node": "node 0",
    "Softmax": "node 0",
    "between": "node 0",
    "axis": "node 0",
    "inner_count": "node If (If_3)",
    "in_then": "node If (If_3)",
    "in_else": "node If (If_3)",
    "read": "node If (If_3)",
    "inner_initializer": "node If (If_3)",
    "LeakyRelu": "node If (If_3)",
    "own_function": "node 1",
    "own_alpha": "node 1",
    "own_input": "function",
    "own_output": "function",
    "in_function": "function",
    "HardSigmoid": "function",
}


def damaged(name: str) -> bytes:
    """Return a model whose name of some length has a first byte that no UTF-8 has, as often as it is there."""
    field = bytes([len(name)]) + name.encode()
    file = onnx.parser.parse_model(TEXT).SerializeToString()
    assert field in file
    return file.replace(field, field[:1] + b"\xff" + field[2:])


def test_the_model_itself_is_good() -> None:
    session = dmlcpu.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
    given = np.zeros((3, 4), np.float32)
    assert [session.run(None, {"given": given, "which": np.array(bit)})[0].shape for bit in (True, False)] == [
        (3, 4)
    ] * 2


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_utf_8(name: str) -> None:
    shown = re.escape(repr(b"\xff" + name[1:].encode()))
    with pytest.raises(dmlcpu.InvalidModelError, match=f"{re.escape(NAMES[name])}.*: {shown} is not UTF-8$"):
        dmlcpu.InferenceSession(damaged(name))


def test_an_attribute_of_a_model_without_functions() -> None:
    builder = Builder()
    builder.output(builder.node("Softmax", [builder.input("float32", (3,))], axis=0), "float32")
    file = builder.build().replace(b"\x04axis", b"\x04\xffxis")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"node Softmax \(Softmax_0\): b'\\xffxis' is not UTF-8$"):
        dmlcpu.InferenceSession(file)


def test_a_producer_is_told_as_well_as_it_can_be() -> None:
    metadata = dmlcpu.InferenceSession(damaged("the.producer")).get_modelmeta()
    assert metadata.producer_name == r"\xffhe.producer"


def test_a_command_tells_of_it_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for name in ("axis", "far.domain", "image_count"):
        path.write_bytes(damaged(name))
        assert rf"\xff{name[1:]}' is not UTF-8" in failed("check", path)
